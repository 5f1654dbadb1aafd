#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pith/pith.hpp"

namespace pith {

/// The entries of one KV head as the kernel reads them: `n` entries `stride` bytes apart, each a key
/// (head_dim numbers of k_type) followed at `value_offset` by a value (head_dim of v_type).
struct HeadEntries {
  const std::byte* data = nullptr;
  const float* log_weights = nullptr;  ///< [n_weights], null where all are zero; entries after them have 0
  int n_weights = 0;
  const int* visible = nullptr;  ///< [n_tokens]: token t attends to entries [0, visible[t])
};

struct AttentionShape {
  int n_tokens = 0;
  int n_head = 0;
  int n_head_kv = 0;
  int head_dim = 0;  ///< a multiple of 8, at most 256
  KvType k_type = KvType::f16;
  KvType v_type = KvType::f16;
  size_t stride = 0;
  size_t value_offset = 0;
  float scale = 0;
};

/// Softmax attention of n_tokens queries over ragged heads, in F32 with exact log-weights:
///
///     out[t,h] = sum_i softmax_i(scale q[t,h].k_i + log_weight_i) v_i,  i < visible[t] of h's KV head
///
/// A token that sees no entry gets zeros. Work is cut into units that do not depend on the number of
/// threads, so the result does not either. One call serves one layer: prepare() once, then run()
/// from each of `nth` threads; the last thread to finish merges what decode split over entries.
class RaggedAttention {
 public:
  /// Not thread-safe. `heads` [n_head_kv] and what it points to must live until all run() return.
  void prepare(const AttentionShape& shape, std::span<const HeadEntries> heads);

  /// q, out: [n_tokens, n_head, head_dim]. Every thread calls it once with its own ith < nth.
  void run(const float* q, float* out, int ith, int nth);

 private:
  struct Unit {
    int head_kv, token_first, token_count, entry_first, entry_count;
  };

  AttentionShape shape_;
  std::span<const HeadEntries> heads_;
  std::vector<Unit> units_;
  std::vector<float> partial_;  // decode: per unit and query of the group: max, sum, head_dim values
  std::atomic<int> next_{0};
  std::atomic<int> finished_{0};
};

}  // namespace pith
