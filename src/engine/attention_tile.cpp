#include "engine/attention_tile.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/simd.h"
#include "cache/hadamard.h"
#include "cache/kv_type.h"
#include "engine/products.h"

namespace pith {
namespace {

using simd::F32;
using simd::kWidth;

// Entries taken at a time: their keys and values should stay in the nearest caches while all rows
// of the tile pass over them.
constexpr int kBlock = 64;
// Up to so many rows, entries are read where they lie; more rows pay for unpacking them first.
constexpr int kDirectRows = 12;
// Entries taken at a time where they are read so: 4 KiB of head_dim 64 in F16. Keys and values are
// passed over in turns, and the processor fetches ahead only where a page is read from its
// beginning to its end: blocks four times as long take half as long again over a full cache.
constexpr int kDirectBlock = 16;
constexpr float kNothing = -std::numeric_limits<float>::infinity();
// Logits are kept in units of ln 2, which saves a multiplication in every exponential.
constexpr float kLog2E = 1.44269504F;

int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// Hands out pieces of the scratch, each on a vector boundary.
class Scratch {
 public:
  explicit Scratch(float* begin) : begin_(begin) {}

  float* take(int count) {
    float* taken = begin_ + used_;
    used_ += size_t(round_up(count, kWidth));
    return taken;
  }
  Matrix take(int rows, int columns) {
    const int stride = round_up(columns, kWidth);
    return {take(rows * stride), size_t(stride)};
  }
  size_t used() const { return used_; }

 private:
  float* begin_;
  size_t used_ = 0;
};

// What a tile works on. Lanes beyond head_dim, and entries of a block beyond its end, hold
// leftovers: no row sees them.
struct Workspace {
  Workspace(Scratch& scratch, int rows, int head_dim)
      : queries(scratch.take(rows, head_dim)),
        logits(scratch.take(rows, kBlock)),
        value_sums(scratch.take(rows, head_dim)),
        weight_sums(scratch.take(rows, kWidth)),
        max(scratch.take(rows)),
        weight(scratch.take(rows)),
        keys(scratch.take(round_up(head_dim, kWidth), kBlock)),
        values(scratch.take(kBlock, head_dim)),
        widened(scratch.take(kWidth, head_dim)),
        bias(scratch.take(kBlock)) {}

  Matrix queries;      // [rows, head_dim], scaled
  Matrix logits;       // [rows, kBlock], replaced by the entries' weights
  Matrix value_sums;   // [rows, head_dim]
  Matrix weight_sums;  // [rows, kWidth], to be summed over lanes
  float* max;          // [rows]
  float* weight;       // [rows]
  Matrix keys;         // [head_dim, kBlock]
  Matrix values;       // [kBlock, head_dim]
  Matrix widened;      // [kWidth, head_dim]: keys on their way to be transposed
  float* bias;         // [kBlock]: log-weights
};

class TileKernel {
 public:
  TileKernel(const AttentionShape& shape, const HeadEntries& head, const Tile& tile, float* scratch)
      : shape_(shape),
        head_(head),
        tile_(tile),
        rows_(tile.token_count * shape.group()),
        direct_(rows_ <= kDirectRows && shape.head_dim % kWidth == 0),
        block_(direct_ ? kDirectBlock : kBlock),
        scratch_(scratch),
        work_(scratch_, rows_, shape.head_dim) {}

  TileSums run(const float* q) {
    load_queries(q);
    for (int first = 0; first < tile_.entry_count; first += block_) {
      const int count = std::min(block_, tile_.entry_count - first);
      load_bias(first, count);
      if (direct_) {
        compute_logits_in_place(first, count);
        add_values(first, count, values_from(first));
      } else {
        unpack(first, count);
        compute_logits(first);
        add_values(first, count, typed(work_.values));
      }
    }
    for (int row = 0; row < rows_; ++row) {
      work_.weight[row] = simd::sum_lanes(simd::load(work_.weight_sums.row(row)));
    }
    return {work_.max, work_.weight, work_.value_sums.data, work_.value_sums.stride};
  }

 private:
  void load_queries(const float* q);
  void load_bias(int first, int count);
  void unpack(int first, int count);
  void transpose_keys(int column);
  void compute_logits(int first);
  void compute_logits_in_place(int first, int count);
  void add_values(int first, int count, TypedRows values);
  template <int Vectors>
  void weigh(int row, int seen);

  TypedRows keys_from(int entry) const {
    return {head_.data + size_t(tile_.entry_first + entry) * shape_.stride, shape_.stride,
            shape_.k_type};
  }
  TypedRows values_from(int entry) const {
    return {keys_from(entry).data + shape_.value_offset, shape_.stride, shape_.v_type};
  }

  int panel_rows(int row) const { return std::min(kPanel, rows_ - row); }

  // Entries that a row sees in the block that begins at `first`; none where it is <= 0.
  int seen(int row, int first) const {
    const int token = tile_.token_first + row / shape_.group();
    const int visible = std::min(head_.visible[token] - tile_.entry_first, tile_.entry_count);
    return std::min(visible - first, block_);
  }
  int panel_seen(int row, int first) const {
    int most = 0;
    for (int r = row; r < row + panel_rows(row); ++r) most = std::max(most, seen(r, first));
    return most;
  }

  const AttentionShape& shape_;
  const HeadEntries& head_;
  const Tile& tile_;
  int rows_;
  bool direct_;
  int block_;
  Scratch scratch_;
  Workspace work_;
};

void TileKernel::load_queries(const float* q) {
  const F32 scale = simd::broadcast(shape_.scale * kLog2E);
  for (int row = 0; row < rows_; ++row) {
    const int token = tile_.token_first + row / shape_.group();
    const int head = tile_.head_kv * shape_.group() + row % shape_.group();
    const float* from =
        q + (size_t(token) * size_t(shape_.n_head) + size_t(head)) * size_t(shape_.head_dim);
    std::memcpy(work_.queries.row(row), from, size_t(shape_.head_dim) * sizeof(float));
    for (int d = 0; d < shape_.head_dim; d += kWidth) {
      float* query = work_.queries.row(row) + d;
      simd::store(query, simd::load(query) * scale);
      simd::store(work_.value_sums.row(row) + d, F32{});
    }
    simd::store(work_.weight_sums.row(row), F32{});
    if (keeps_keys_rotated(shape_.k_type)) hadamard(work_.queries.row(row), shape_.head_dim);
    work_.max[row] = kNothing;
  }
}

void TileKernel::load_bias(int first, int count) {
  const int at = tile_.entry_first + first;
  const int weighted = std::clamp(head_.n_weights - at, 0, count);
  for (int i = 0; i < weighted; ++i) work_.bias[i] = head_.log_weights[at + i] * kLog2E;
  std::fill(work_.bias + weighted, work_.bias + count, 0.0F);
}

void TileKernel::unpack(int first, int count) {
  const TypedRows keys = keys_from(first), values = values_from(first);
  for (int i = 0; i < count; ++i) {
    widen(keys, i, shape_.head_dim, work_.widened.row(i % kWidth));
    widen(values, i, shape_.head_dim, work_.values.row(i));
    if (i % kWidth == kWidth - 1 || i == count - 1) transpose_keys(i / kWidth * kWidth);
  }
}

// Moves the widened keys to columns [column, column + kWidth) of the block.
void TileKernel::transpose_keys(int column) {
  for (int d = 0; d < shape_.head_dim; d += kWidth) {
    F32 square[kWidth];
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) square[i] = simd::load(work_.widened.row(i) + d);
    simd::transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) simd::store(work_.keys.row(d + i) + column, square[i]);
  }
}

void TileKernel::compute_logits(int first) {
  for (int row = 0; row < rows_; row += kPanel) {
    const int vectors = round_up(panel_seen(row, first), kWidth) / kWidth;
    multiply(work_.queries.from(row), typed(work_.keys), work_.logits.from(row), panel_rows(row),
             shape_.head_dim, vectors, false);
  }
}

void TileKernel::compute_logits_in_place(int first, int count) {
  for (int i = 0; i < count; i += kWidth) {
    dot(work_.queries, keys_from(first + i), {work_.logits.data + i, work_.logits.stride}, rows_,
        shape_.head_dim, std::min(kWidth, count - i));
  }
}

void TileKernel::add_values(int first, int count, TypedRows values) {
  for (int row = 0; row < rows_; ++row) {
    if (direct_) {
      weigh<kDirectBlock / kWidth>(row, seen(row, first));
    } else {
      weigh<kBlock / kWidth>(row, seen(row, first));
    }
  }
  for (int row = 0; row < rows_; row += kPanel) {
    const int depth = std::min(count, panel_seen(row, first));
    if (depth <= 0) continue;
    multiply(work_.logits.from(row), values, work_.value_sums.from(row), panel_rows(row), depth,
             round_up(shape_.head_dim, kWidth) / kWidth, true);
  }
}

// Turns a row's logits, of which it sees the first `seen`, into weights relative to its running
// maximum, and brings its sums to a new maximum.
template <int Vectors>
void TileKernel::weigh(int row, int seen) {
  float* logits = work_.logits.row(row);
  F32 x[Vectors];
#pragma GCC unroll 16
  for (int v = 0; v < Vectors; ++v) {
    x[v] = simd::load(logits + v * kWidth) + simd::load(work_.bias + v * kWidth);
  }
  if (seen < Vectors * kWidth) {
    const F32 nothing = simd::broadcast(kNothing);
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) {
      x[v] = simd::lane_numbers() < seen - v * kWidth ? x[v] : nothing;
    }
  }
  F32 top = x[0];
#pragma GCC unroll 16
  for (int v = 1; v < Vectors; ++v) top = simd::max(top, x[v]);
  const float old_max = work_.max[row];
  const float max = std::max(old_max, simd::max_lane(top));
  // A row that has seen nothing keeps weights of 0: any finite maximum gives them.
  const F32 base = simd::broadcast(max == kNothing ? 0.0F : max);
  F32 sum = simd::load(work_.weight_sums.row(row));
  if (max > old_max) {
    const F32 shrink = simd::exp2(simd::broadcast(old_max) - base);
    sum *= shrink;
    for (int d = 0; d < shape_.head_dim; d += kWidth) {
      float* value = work_.value_sums.row(row) + d;
      simd::store(value, simd::load(value) * shrink);
    }
    work_.max[row] = max;
  }
#pragma GCC unroll 16
  for (int v = 0; v < Vectors; ++v) {
    const F32 weight = simd::exp2(x[v] - base);
    simd::store(logits + v * kWidth, weight);
    sum += weight;
  }
  simd::store(work_.weight_sums.row(row), sum);
}

}  // namespace

size_t tile_scratch_floats(int rows, int head_dim) {
  Scratch scratch(nullptr);
  const Workspace measured(scratch, rows, head_dim);
  return scratch.used();
}

TileSums attend_tile(const AttentionShape& shape, const HeadEntries& head, const Tile& tile,
                     const float* q, float* scratch) {
  return TileKernel(shape, head, tile, scratch).run(q);
}

}  // namespace pith
