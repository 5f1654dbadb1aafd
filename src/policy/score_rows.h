#pragma once

#include <functional>
#include <span>

#include "pith/policy.hpp"

namespace pith {

/// One (layer, KV head) of a cache that is being scored.
struct ScoredRow {
  int layer = 0;
  int head_kv = 0;
  std::span<float> scores;  ///< [length], zeros, to be filled
};

/// Tells context.progress the share done. Throws Error(interrupted) where it says to stop.
void report_progress(const PolicyContext& context, double share);

/// The context for one of several passes: its progress 0..1 is told as `from`..`to`.
PolicyContext pass_of(const PolicyContext& context, double from, double to);

/// Calls `body` for every (layer, KV head) on up to context.threads threads; fewer where each needs
/// so much memory that together they would pass context.scratch_bytes. `row_bytes(layer, head_kv)`
/// is the working memory of one call. context.progress is called from this thread only, with 0
/// first and 1 last. Returns the bytes used at once. Throws Error(memory) where one row alone
/// passes scratch_bytes, and Error(interrupted).
size_t each_row(const PolicyContext& context,
                const std::function<size_t(int layer, int head_kv)>& row_bytes,
                const std::function<void(int layer, int head_kv)>& body);

/// Scores made one (layer, KV head) at a time by `score_row`, as each_row() calls it.
Scores score_each_row(const PolicyContext& context,
                      const std::function<size_t(int layer, int head_kv)>& row_bytes,
                      const std::function<void(const ScoredRow&)>& score_row);

}  // namespace pith
