#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pith {

/// One fidelity row: `context` is compressed, `continuation` teacher-forced after it; score[j]
/// marks the predictions made after reading continuation token j. `prompt_tokens` > 0 marks a
/// generation row: the first prompt_tokens of the context are its prompt, the rest was generated.
struct FidelityRow {
  std::string id;
  std::string kind;
  std::vector<int32_t> context;
  std::vector<int32_t> continuation;
  std::vector<uint8_t> score;
  int prompt_tokens = 0;
};

/// Parses one JSONL line with token ids; without a `kind` it is of kind "rows". Throws
/// Error(bad_file) naming what is off: not JSON, a missing or mistyped field, an id outside [0,
/// n_vocab), no scored position, or more than 2^20 tokens. Fields that are not part of the schema
/// are ignored.
FidelityRow parse_row(std::string_view line, int n_vocab);

/// All rows of a file; blank lines are skipped. Throws Error(io) where it cannot be read and
/// Error(bad_file), naming file and line, for a malformed row, a line over 64 MiB, or no rows.
std::vector<FidelityRow> read_rows(const std::string& path, int n_vocab);

/// The rows of `kinds` (all where empty), at most `limit` of each kind (0: all). Throws
/// Error(usage) for a kind that no row has.
std::vector<FidelityRow> select_rows(std::vector<FidelityRow> rows,
                                     const std::vector<std::string>& kinds, int limit);

}  // namespace pith
