#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "eval/rows.h"
#include "pith/pith.hpp"

namespace pith::tools {

/// The rows of a measurement: files of token ids, or texts.
struct RowSettings {
  std::vector<std::string> files = {};
  std::string rows = {};
  std::vector<std::string> kinds = {};
  int limit = 0;
  int continuation = 128;
};

void add_row_options(CLI::App& command, RowSettings& settings);

/// Texts are read at once, so that a missing one is found before a model is loaded.
class RowSource {
 public:
  /// Throws Error(usage) unless there are either texts or rows, and what read_text() throws.
  explicit RowSource(const RowSettings& settings);

  /// The last tokens of a text continue the rest, and every one of them counts. Throws
  /// Error(bad_file) for a text that is too short, and what read_rows() and select_rows() throw.
  std::vector<FidelityRow> load(const Model& model) const;

 private:
  RowSettings settings_;
  std::vector<std::string> texts_;
};

/// Throws Error(memory) where a row, with `more` tokens after its context, passes the context size.
void check_lengths(const Model& model, const SessionOptions& options,
                   const std::vector<FidelityRow>& rows, int more = 0);

}  // namespace pith::tools
