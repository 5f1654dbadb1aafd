#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "pith/pith.hpp"

namespace pith::tools {

inline constexpr const char* kDefaultPolicy = "pith";
inline constexpr const char* kDefaultBudget = "25%";

/// Options that every command with a model takes.
struct ModelSettings {
  std::string path;
  ModelOptions options;
};

/// Options of the session: context, threads, cache.
struct SessionSettings {
  SessionOptions options;
  std::string k_type = "f16", v_type = "f16", attention = "ragged";
  bool no_calibrate = false;
};

/// The policies and budgets of a comparison.
struct CaseSettings {
  std::vector<std::string> policies{kDefaultPolicy};
  std::vector<std::string> budgets{kDefaultBudget};
};

void add_model_options(CLI::App& command, ModelSettings& settings);
void add_session_options(CLI::App& command, SessionSettings& settings);
/// `--max-risk`, of commands that compress.
void add_risk_limit(CLI::App& command, SessionSettings& settings);
void add_case_options(CLI::App& command, CaseSettings& settings);

/// Loads the model that was asked for; without one, that of the cache folder, which stderr then
/// says.
Model load_model(const ModelSettings& settings);

/// Throws Error(usage) for values out of range.
SessionOptions session_options(const SessionSettings& settings);

/// Adds a command whose `body` runs when it was asked for. Unknown words on the command line throw
/// Error(usage) with the nearest option.
CLI::App& add_command(CLI::App& tool, const std::string& name, const std::string& summary,
                      const std::function<void()>& body);

/// The command line with llama.cpp's short names of two and three letters (-ub, -ctk, -ctv) written
/// out, since the parser knows one-letter names only.
std::vector<std::string> expand_short_names(int argc, const char* const* argv);

/// The command line as a shell would read it back, for result files.
std::string shell_text(int argc, const char* const* argv);

}  // namespace pith::tools
