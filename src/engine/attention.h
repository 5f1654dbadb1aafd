#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/attention_tile.h"

namespace pith {

/// Softmax attention of n_tokens queries over ragged heads, in F32 with exact log-weights:
///
///     out[t,h] = sum_i softmax_i(scale q[t,h].k_i + log_weight_i) v_i,  i < visible[t] of h's KV
///     head
///
/// A token that sees no entry gets zeros. Many tokens are cut into tiles of tokens; few tokens, as
/// in decoding, into chunks of entries, whose sums the last thread to finish merges in their order.
/// Neither depends on the number of threads, so the result does not either.
///
/// One call serves one layer: prepare() once, then run() from each thread. Memory is kept
/// from call to call and bounded by the tile, not by the number of entries.
class RaggedAttention {
 public:
  /// Not thread-safe. `heads` [n_head_kv] and what it points to must live until all run() return.
  /// At most `max_threads` threads may run.
  void prepare(const AttentionShape& shape, std::span<const HeadEntries> heads, int max_threads);

  /// q, out: [n_tokens, n_head, head_dim]. Every thread calls it once with its own ith <
  /// max_threads.
  void run(const float* q, float* out, int ith);

  /// Working memory held.
  size_t scratch_bytes() const;

 private:
  static constexpr size_t kLineFloats = 16;
  struct alignas(64) CacheLine {
    float values[kLineFloats];
  };

  void plan_tiles(int tile_tokens);
  float* out_row(float* out, const Tile& tile, int row) const;
  void write_tile(const TileSums& sums, const Tile& tile, float* out) const;
  size_t partial_floats() const;
  void save_partial(const TileSums& sums, size_t index);
  void merge(float* out) const;
  void merge_row(size_t begin, size_t end, int row, float* out) const;

  AttentionShape shape_;
  std::span<const HeadEntries> heads_;
  std::vector<Tile> tiles_;
  bool split_ = false;          // tiles are chunks of entries, to be merged
  std::vector<float> partial_;  // per chunk and row: max, sum of weights, head_dim sums of values
  std::vector<CacheLine> scratch_;  // per thread
  size_t scratch_lines_ = 0;        // of one thread
  std::atomic<size_t> next_{0};
  std::atomic<size_t> finished_{0};
};

}  // namespace pith
