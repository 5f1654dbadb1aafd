#pragma once

#include <cstddef>

#include "pith/pith.hpp"

namespace pith {

/// The entries of one KV head as the kernel reads them: `stride` bytes apart, each a key (head_dim
/// numbers of k_type, as the cache keeps them: keeps_keys_rotated()) followed at `value_offset` by
/// a value (head_dim numbers of v_type).
struct HeadEntries {
  const std::byte* data = nullptr;
  const float* log_weights = nullptr;  ///< [n_weights]; entries after them have log-weight 0
  int n_weights = 0;
  const int* visible = nullptr;  ///< [n_tokens]: token t attends to entries [0, visible[t])
};

struct AttentionShape {
  int n_tokens = 0;
  int n_head = 0;
  int n_head_kv = 0;
  int head_dim = 0;  ///< a multiple of 8; multiples of the vector width (16) are faster
  KvType k_type = KvType::f16;
  KvType v_type = KvType::f16;
  size_t stride = 0;
  size_t value_offset = 0;
  float scale = 0;

  int group() const { return n_head / n_head_kv; }
};

/// What one thread does at a time: the queries of some tokens over some entries of one KV head. Its
/// rows are numbered token * group + query head of the group.
struct Tile {
  int head_kv = 0;
  int token_first = 0, token_count = 0;
  int entry_first = 0, entry_count = 0;
};

/// Softmax sums of a tile's rows: sum_i w_i and sum_i w_i v_i with w_i = 2^(logit_i - max).
struct TileSums {
  const float* max;     ///< [rows], in units of ln 2; -inf for a row that sees nothing
  const float* weight;  ///< [rows]
  const float* value;   ///< [rows, value_stride], head_dim of each row used
  size_t value_stride = 0;
};

/// Floats of scratch that attend_tile() needs for up to `rows` rows.
size_t tile_scratch_floats(int rows, int head_dim);

/// Computes a tile. q: [n_tokens, n_head, head_dim]; scratch: tile_scratch_floats() on a 64-byte
/// boundary, which the result points into.
TileSums attend_tile(const AttentionShape& shape, const HeadEntries& head, const Tile& tile,
                     const float* q, float* scratch);

}  // namespace pith
