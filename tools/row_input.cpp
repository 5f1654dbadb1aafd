#include "row_input.h"

#include <algorithm>
#include <filesystem>

#include "session/session.h"
#include "text_input.h"

namespace pith::tools {
namespace {

FidelityRow text_row(const Model& model, const std::string& path, const std::string& text,
                     int continuation) {
  const std::vector<int32_t> tokens = model.impl()->vocab->tokenize(text, true, false);
  if (int(tokens.size()) <= continuation) {
    throw Error(ErrorCode::bad_file, path + ": " + std::to_string(tokens.size()) +
                                         " tokens, but more than --continue " +
                                         std::to_string(continuation) + " are needed");
  }
  FidelityRow row;
  row.id = std::filesystem::path(path).filename().string();
  row.kind = "text";
  const auto cut = tokens.end() - continuation;
  row.context.assign(tokens.begin(), cut);
  row.continuation.assign(cut, tokens.end());
  row.score.assign(size_t(continuation), 1);
  return row;
}

}  // namespace

void add_row_options(CLI::App& command, RowSettings& settings) {
  command.add_option("-f,--file", settings.files,
                     "texts; all but the last --continue tokens are compressed");
  command.add_option("--rows", settings.rows, "rows of token ids (JSONL) in place of texts");
  command.add_option("--kinds", settings.kinds, "only rows of these kinds, with commas between")
      ->delimiter(',');
  command.add_option("--limit", settings.limit, "at most so many rows of each kind; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--continue", settings.continuation, "tokens of a text that are predicted")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
}

RowSource::RowSource(const RowSettings& settings) : settings_(settings) {
  if (settings.files.empty() == settings.rows.empty()) {
    throw Error(ErrorCode::usage, "what is measured is either texts (-f) or rows (--rows)");
  }
  for (const std::string& path : settings.files) texts_.push_back(read_text(path));
}

std::vector<FidelityRow> RowSource::load(const Model& model) const {
  if (!settings_.rows.empty()) {
    return select_rows(read_rows(settings_.rows, model.shape().n_vocab), settings_.kinds,
                       settings_.limit);
  }
  std::vector<FidelityRow> rows;
  rows.reserve(texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    rows.push_back(text_row(model, settings_.files[i], texts_[i], settings_.continuation));
  }
  return rows;
}

void check_lengths(const Model& model, const SessionOptions& options,
                   const std::vector<FidelityRow>& rows, int more) {
  const auto n_ctx = size_t(options.n_ctx > 0 ? options.n_ctx : model.n_ctx_train());
  for (const FidelityRow& row : rows) {
    const size_t need = row.context.size() + std::max(row.continuation.size(), size_t(more));
    if (need <= n_ctx) continue;
    throw Error(ErrorCode::memory, row.id + ": " + std::to_string(need) +
                                       " tokens do not fit the context of " +
                                       std::to_string(n_ctx) + "; -c sets a larger one");
  }
}

}  // namespace pith::tools
