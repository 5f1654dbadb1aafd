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
/// in decoding, and tokens that have entries of their own into chunks of entries, whose sums the
/// last thread to finish merges in their order. Neither depends on the number of threads, so the
/// result does not either.
///
/// One call serves one layer: prepare() once, then run() from each thread. Memory is kept
/// from call to call and bounded by the tile, not by the number of entries.
class RaggedAttention {
 public:
  /// Not thread-safe. `heads` [n_head_kv] are what all tokens attend to; where there is `own`
  /// [n_head_kv, n_tokens], each token also attends to its own entries. Both, and what they point
  /// to, must live until all run() return. At most `max_threads` threads may run.
  void prepare(const AttentionShape& shape, std::span<const HeadEntries> heads, int max_threads,
               std::span<const HeadEntries> own = {});

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

  // A tile with the entries that it is of.
  struct Part {
    Tile tile;
    const HeadEntries* entries;
    size_t sums_at;  // where partial_ holds its sums

    bool covers(int token) const {
      return token >= tile.token_first && token < tile.token_first + tile.token_count;
    }
  };

  void plan_parts(std::span<const HeadEntries> heads, std::span<const HeadEntries> own,
                  int tile_tokens);
  void add_parts(const HeadEntries& entries, Tile tile);
  float* out_row(float* out, int head_kv, int token, int member) const;
  void write_tile(const TileSums& sums, const Tile& tile, float* out) const;
  size_t row_sums() const { return size_t(shape_.head_dim) + 2; }
  const float* sums_of(const Part& part, int token, int member) const;
  void save_partial(const TileSums& sums, const Part& part);
  void merge(float* out) const;
  void merge_row(std::span<const Part> parts, int token, int member, float* out) const;

  AttentionShape shape_;
  std::vector<Part> parts_;
  bool split_ = false;          // parts are chunks of entries, to be merged
  size_t partial_floats_ = 0;   // that the parts need
  std::vector<float> partial_;  // per part and row: max, sum of weights, head_dim sums of values
  std::vector<CacheLine> scratch_;  // per thread
  size_t scratch_lines_ = 0;        // of one thread
  std::atomic<size_t> next_{0};
  std::atomic<size_t> finished_{0};
};

}  // namespace pith
