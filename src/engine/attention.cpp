#include "engine/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace pith {
namespace {

// Up to so many rows (token x query head of the group) are few: the entries are cut, not the
// tokens.
constexpr int kFewRows = 32;
constexpr int kChunk = 512;
// Rows of a tile of tokens. More share the work of unpacking an entry; fewer spread over threads.
constexpr int kTileRows = 192;
constexpr int kSmallTileRows = 48;
constexpr int kWantedTiles = 32;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

int tokens_per_tile(const AttentionShape& shape) {
  const int wanted = shape.n_tokens * shape.n_head_kv / kWantedTiles;
  const int group = shape.group();
  return std::max(1, std::clamp(wanted, kSmallTileRows / group, kTileRows / group));
}

int most_visible(const HeadEntries& head, int token_first, int token_count) {
  const int* first = head.visible + token_first;
  return *std::max_element(first, first + token_count);
}

// Heaviest first, so that the threads finish together.
bool heavier(const Tile& a, const Tile& b) {
  const auto key = [](const Tile& tile) {
    return std::tuple(-int64_t(tile.token_count) * tile.entry_count, tile.head_kv,
                      tile.token_first);
  };
  return key(a) < key(b);
}

}  // namespace

void RaggedAttention::prepare(const AttentionShape& shape, std::span<const HeadEntries> heads,
                              int max_threads) {
  shape_ = shape;
  heads_ = heads;
  next_ = 0;
  finished_ = 0;
  const int rows = shape.n_tokens * shape.group();
  split_ = rows <= kFewRows;
  const int tile_tokens = split_ ? shape.n_tokens : tokens_per_tile(shape);
  plan_tiles(tile_tokens);
  if (split_) partial_.resize(std::max(partial_.size(), tiles_.size() * partial_floats()));
  const size_t floats = tile_scratch_floats(tile_tokens * shape.group(), shape.head_dim);
  scratch_lines_ = (floats + kLineFloats - 1) / kLineFloats;
  scratch_.resize(std::max(scratch_.size(), scratch_lines_ * size_t(max_threads)));
}

void RaggedAttention::plan_tiles(int tile_tokens) {
  tiles_.clear();
  for (int head = 0; head < shape_.n_head_kv; ++head) {
    for (int token = 0; token < shape_.n_tokens; token += tile_tokens) {
      const int tokens = std::min(tile_tokens, shape_.n_tokens - token);
      const int entries = most_visible(heads_[size_t(head)], token, tokens);
      const int chunk = split_ ? kChunk : std::max(entries, 1);
      // Also where nothing is visible there is one tile, whose tokens get zeros.
      for (int first = 0; first == 0 || first < entries; first += chunk) {
        tiles_.push_back({head, token, tokens, first, std::min(chunk, entries - first)});
      }
    }
  }
  if (!split_) std::sort(tiles_.begin(), tiles_.end(), heavier);
}

void RaggedAttention::run(const float* q, float* out, int ith) {
  float* scratch = scratch_[size_t(ith) * scratch_lines_].values;
  for (size_t i = next_++; i < tiles_.size(); i = next_++) {
    const Tile& tile = tiles_[i];
    const TileSums sums = attend_tile(shape_, heads_[size_t(tile.head_kv)], tile, q, scratch);
    if (!split_) {
      write_tile(sums, tile, out);
      continue;
    }
    save_partial(sums, i);
    if (++finished_ == tiles_.size()) merge(out);
  }
}

float* RaggedAttention::out_row(float* out, const Tile& tile, int row) const {
  const int group = shape_.group();
  const int token = tile.token_first + row / group, head = tile.head_kv * group + row % group;
  return out + (size_t(token) * size_t(shape_.n_head) + size_t(head)) * size_t(shape_.head_dim);
}

void RaggedAttention::write_tile(const TileSums& sums, const Tile& tile, float* out) const {
  for (int row = 0; row < tile.token_count * shape_.group(); ++row) {
    const float weight = sums.weight[row];
    const float share = weight > 0 ? 1 / weight : 0;
    const float* value = sums.value + size_t(row) * sums.value_stride;
    float* to = out_row(out, tile, row);
    for (int d = 0; d < shape_.head_dim; ++d) to[d] = value[d] * share;
  }
}

size_t RaggedAttention::partial_floats() const {
  return size_t(shape_.n_tokens * shape_.group()) * size_t(shape_.head_dim + 2);
}

void RaggedAttention::save_partial(const TileSums& sums, size_t index) {
  float* to = partial_.data() + index * partial_floats();
  for (int row = 0; row < shape_.n_tokens * shape_.group(); ++row) {
    *to++ = sums.max[row];
    *to++ = sums.weight[row];
    to = std::copy_n(sums.value + size_t(row) * sums.value_stride, shape_.head_dim, to);
  }
}

void RaggedAttention::merge(float* out) const {
  for (size_t begin = 0, end = 0; begin < tiles_.size(); begin = end) {
    while (end < tiles_.size() && tiles_[end].head_kv == tiles_[begin].head_kv) ++end;
    for (int row = 0; row < shape_.n_tokens * shape_.group(); ++row) {
      merge_row(begin, end, row, out_row(out, tiles_[begin], row));
    }
  }
}

void RaggedAttention::merge_row(size_t begin, size_t end, int row, float* out) const {
  const auto part = [&](size_t index) {
    return partial_.data() + index * partial_floats() + size_t(row) * size_t(shape_.head_dim + 2);
  };
  float max = kNothing;
  for (size_t i = begin; i < end; ++i) max = std::max(max, part(i)[0]);
  std::fill_n(out, shape_.head_dim, 0.0F);
  if (max == kNothing) return;
  float weight = 0;
  for (size_t i = begin; i < end; ++i) weight += std::exp2(part(i)[0] - max) * part(i)[1];
  for (size_t i = begin; i < end; ++i) {
    const float share = std::exp2(part(i)[0] - max) / weight;
    for (int d = 0; d < shape_.head_dim; ++d) out[d] += share * part(i)[2 + d];
  }
}

size_t RaggedAttention::scratch_bytes() const {
  return scratch_.size() * sizeof(CacheLine) + partial_.size() * sizeof(float);
}

}  // namespace pith
