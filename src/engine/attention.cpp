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
                              int max_threads, std::span<const HeadEntries> own) {
  shape_ = shape;
  next_ = 0;
  finished_ = 0;
  split_ = !own.empty() || shape.n_tokens * shape.group() <= kFewRows;
  const int most_tokens = std::max(1, kTileRows / shape.group());
  const int tile_tokens = split_ ? std::min(shape.n_tokens, most_tokens) : tokens_per_tile(shape);
  plan_parts(heads, own, tile_tokens);
  if (split_) partial_.resize(std::max(partial_.size(), partial_floats_));
  const size_t floats = tile_scratch_floats(tile_tokens * shape.group(), shape.head_dim);
  scratch_lines_ = (floats + kLineFloats - 1) / kLineFloats;
  scratch_.resize(std::max(scratch_.size(), scratch_lines_ * size_t(max_threads)));
}

void RaggedAttention::plan_parts(std::span<const HeadEntries> heads,
                                 std::span<const HeadEntries> own, int tile_tokens) {
  parts_.clear();
  partial_floats_ = 0;
  for (int head = 0; head < shape_.n_head_kv; ++head) {
    for (int token = 0; token < shape_.n_tokens; token += tile_tokens) {
      const int tokens = std::min(tile_tokens, shape_.n_tokens - token);
      add_parts(heads[size_t(head)], {head, token, tokens});
    }
    for (int token = 0; token < shape_.n_tokens && !own.empty(); ++token) {
      add_parts(own[size_t(head) * size_t(shape_.n_tokens) + size_t(token)], {head, token, 1});
    }
  }
  if (split_) return;
  std::ranges::sort(parts_, [](const Part& a, const Part& b) { return heavier(a.tile, b.tile); });
}

void RaggedAttention::add_parts(const HeadEntries& entries, Tile tile) {
  const int visible = most_visible(entries, tile.token_first, tile.token_count);
  const int chunk = split_ ? kChunk : std::max(visible, 1);
  // Also where nothing is visible there is one part, whose tokens get zeros.
  for (int first = 0; first == 0 || first < visible; first += chunk) {
    tile.entry_first = first;
    tile.entry_count = std::min(chunk, visible - first);
    parts_.push_back({tile, &entries, partial_floats_});
    partial_floats_ += size_t(tile.token_count * shape_.group()) * row_sums();
  }
}

void RaggedAttention::run(const float* q, float* out, int ith) {
  float* scratch = scratch_[size_t(ith) * scratch_lines_].values;
  for (size_t i = next_++; i < parts_.size(); i = next_++) {
    const Part& part = parts_[i];
    const TileSums sums = attend_tile(shape_, *part.entries, part.tile, q, scratch);
    if (!split_) {
      write_tile(sums, part.tile, out);
      continue;
    }
    save_partial(sums, part);
    if (++finished_ == parts_.size()) merge(out);
  }
}

/// Where the attention of a token goes; `member` of the query heads of a KV head.
float* RaggedAttention::out_row(float* out, int head_kv, int token, int member) const {
  const int head = head_kv * shape_.group() + member;
  return out + (size_t(token) * size_t(shape_.n_head) + size_t(head)) * size_t(shape_.head_dim);
}

void RaggedAttention::write_tile(const TileSums& sums, const Tile& tile, float* out) const {
  const int group = shape_.group();
  for (int row = 0; row < tile.token_count * group; ++row) {
    const float weight = sums.weight[row];
    const float share = weight > 0 ? 1 / weight : 0;
    const float* value = sums.value + size_t(row) * sums.value_stride;
    float* to = out_row(out, tile.head_kv, tile.token_first + row / group, row % group);
    for (int d = 0; d < shape_.head_dim; ++d) to[d] = value[d] * share;
  }
}

void RaggedAttention::save_partial(const TileSums& sums, const Part& part) {
  float* to = partial_.data() + part.sums_at;
  for (int row = 0; row < part.tile.token_count * shape_.group(); ++row) {
    *to++ = sums.max[row];
    *to++ = sums.weight[row];
    to = std::copy_n(sums.value + size_t(row) * sums.value_stride, shape_.head_dim, to);
  }
}

const float* RaggedAttention::sums_of(const Part& part, int token, int member) const {
  const int row = (token - part.tile.token_first) * shape_.group() + member;
  return partial_.data() + part.sums_at + size_t(row) * row_sums();
}

void RaggedAttention::merge(float* out) const {
  for (size_t begin = 0, end = 0; begin < parts_.size(); begin = end) {
    const int head = parts_[begin].tile.head_kv;
    while (end < parts_.size() && parts_[end].tile.head_kv == head) ++end;
    const auto parts = std::span(parts_).subspan(begin, end - begin);
    for (int token = 0; token < shape_.n_tokens; ++token) {
      for (int member = 0; member < shape_.group(); ++member) {
        merge_row(parts, token, member, out_row(out, head, token, member));
      }
    }
  }
}

void RaggedAttention::merge_row(std::span<const Part> parts, int token, int member,
                                float* out) const {
  const auto each = [&](const auto& add) {
    for (const Part& part : parts) {
      if (part.covers(token)) add(sums_of(part, token, member));
    }
  };
  float max = kNothing, weight = 0;
  each([&](const float* sums) { max = std::max(max, sums[0]); });
  std::fill_n(out, shape_.head_dim, 0.0F);
  if (max == kNothing) return;
  each([&](const float* sums) { weight += std::exp2(sums[0] - max) * sums[1]; });
  each([&](const float* sums) {
    const float share = std::exp2(sums[0] - max) / weight;
    for (int d = 0; d < shape_.head_dim; ++d) out[d] += share * sums[2 + d];
  });
}

size_t RaggedAttention::scratch_bytes() const {
  return scratch_.size() * sizeof(CacheLine) + partial_.size() * sizeof(float);
}

}  // namespace pith
