#include "options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <utility>

#include "cache_folder.h"
#include "policy/text.h"

namespace pith::tools {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 3> kShortNames{{
    {"-ub", "--ubatch-size"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
}};

/// The model that the set-up downloads.
std::string default_model_path() {
  return cache_folder() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}

KvType kv_type(const std::string& name) {
  return KvType(std::ranges::find(kKvTypeNames, name) - kKvTypeNames.begin());
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

void reject_unknown_words(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  if (words.empty()) return;
  std::string hint;
  if (words[0].starts_with("-")) {
    hint = "; did you mean " + nearest(words[0], option_names(command)) + "?";
  }
  throw Error(ErrorCode::usage,
              command.get_name() + " does not know " + pith::quote(words[0]) + hint);
}

}  // namespace

void add_model_options(CLI::App& command, ModelSettings& settings) {
  command.add_option("-m,--model", settings.path,
                     "GGUF file; default: the model that the set-up downloaded");
  command
      .add_option_function<std::string>(
          "--weights",
          [&settings](const std::string& kind) {
            settings.options.dequantize_weights = kind == "f32";
          },
          "how weights are held: stored (as in the file) or f32 (dequantised at load)")
      ->check(CLI::IsMember({"stored", "f32"}))
      ->default_str("stored");
}

void add_session_options(CLI::App& command, SessionSettings& settings) {
  SessionOptions& options = settings.options;
  command.add_option("-t,--threads", options.threads, "threads; 0: physical cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command.add_option("-c,--ctx-size", options.n_ctx, "most tokens; 0: the model's trained context")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  command.add_option("--ubatch-size", options.n_ubatch, "tokens run at once in prefill (-ub)")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  const CLI::IsMember types(std::vector<std::string>(kKvTypeNames.begin(), kKvTypeNames.end()));
  command.add_option("--cache-type-k", settings.k_type, "type of cached keys (-ctk)")
      ->check(types)
      ->capture_default_str();
  command.add_option("--cache-type-v", settings.v_type, "type of cached values (-ctv)")
      ->check(types)
      ->capture_default_str();
  command.add_option("--attention", settings.attention, "attention path")
      ->check(CLI::IsMember(
          std::vector<std::string>(kAttentionPathNames.begin(), kAttentionPathNames.end())))
      ->capture_default_str();
  command
      .add_option("--scratch", options.scratch_bytes,
                  "bound on the working memory of scoring, such as 256MiB; default 1GiB")
      ->transform(CLI::AsSizeValue(false));
  command.add_flag(
      "--no-calibrate", settings.no_calibrate,
      "do not measure the model for policies that use that; a kept calibration counts");
  command
      .add_option("--sinks", options.protection.sinks,
                  "first entries of each head never evicted; default: up to 4, by budget")
      ->check(CLI::Range(0, 1 << 20));
  command
      .add_option("--window", options.protection.window,
                  "last entries of each head never evicted; default: up to 32, by budget")
      ->check(CLI::Range(0, 1 << 20));
}

void add_risk_limit(CLI::App& command, SessionSettings& settings) {
  command
      .add_option("--max-risk", settings.options.max_risk,
                  "keep heads whole, over the budget, whose plan error is above this, such as 0.2; "
                  "`pith risk` prints the errors")
      ->check(CLI::PositiveNumber);
}

void add_case_options(CLI::App& command, CaseSettings& settings) {
  command.add_option("--policy", settings.policies, "policies, see `pith policies`")
      ->capture_default_str();
  command
      .add_option("--budget", settings.budgets,
                  "what stays: 10%, 512 (mean entries a layer and KV head) or 64MiB")
      ->capture_default_str();
}

Model load_model(const ModelSettings& settings) {
  if (!settings.path.empty()) return Model::load(settings.path, settings.options);
  const std::string path = default_model_path();
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorCode::io, "no model was given (-m) and there is none at " + path +
                                   "; `make setup` downloads it");
  }
  std::cerr << "model: " << path << "\n";
  return Model::load(path, settings.options);
}

SessionOptions session_options(const SessionSettings& settings) {
  SessionOptions options = settings.options;
  options.k_type = kv_type(settings.k_type);
  options.v_type = kv_type(settings.v_type);
  const auto path =
      std::find(kAttentionPathNames.begin(), kAttentionPathNames.end(), settings.attention);
  options.attention = AttentionPath(path - kAttentionPathNames.begin());
  return options;
}

CLI::App& add_command(CLI::App& tool, const std::string& name, const std::string& summary,
                      const std::function<void()>& body) {
  CLI::App& command = *tool.add_subcommand(name, summary);
  command.allow_extras();
  command.callback([&command, body] {
    reject_unknown_words(command);
    body();
  });
  return command;
}

std::vector<std::string> expand_short_names(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::string& word : words) {
    const auto* known =
        std::ranges::find_if(kShortNames, [&](const auto& pair) { return word == pair.first; });
    if (known != kShortNames.end()) word = known->second;
  }
  return words;
}

std::string shell_text(int argc, const char* const* argv) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%";
  std::string text = "pith";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += " " + word;
      continue;
    }
    text += " '";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += "'";
  }
  return text;
}

}  // namespace pith::tools
