#include "model/block_matrix.h"

#include <ggml.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/byte_block.h"
#include "base/simd.h"

namespace pith {
namespace {

using simd::F32;
using simd::I32;
using simd::kWidth;

constexpr int kBlock = 32;
constexpr int kWords = kBlock / 4;  // of four bytes
constexpr int32_t kNibbles = 0x0f0f0f0f;
// Tokens that one pass over a panel serves: more do not make it faster (measured).
constexpr int kTokens = 4;

/// A block of Q4_1 as it is stored: number i is scale * nibble i + offset, the low nibbles first.
struct Q41 {
  uint16_t scale, offset;
  uint8_t nibbles[kBlock / 2];
};
static_assert(sizeof(Q41) == 20);

constexpr float kSteps = 127;

/// sum + what a block adds to a token's products: `dots` of its whole numbers. `scales_at` are the
/// token's scales, its sums behind them.
F32 add_block(F32 sum, I32 dots, F32 scales, F32 offsets, const std::byte* scales_at, int b,
              int blocks) {
  float factor, total;
  std::memcpy(&factor, scales_at + size_t(b) * sizeof factor, sizeof factor);
  std::memcpy(&total, scales_at + size_t(blocks + b) * sizeof total, sizeof total);
  sum = simd::fma(__builtin_convertvector(dots, F32), scales * factor, sum);
  return simd::fma(offsets, simd::broadcast(total), sum);
}

/// As a panel holds a block: four words of nibbles a row, the low ones first, scales and offsets.
constexpr size_t kPanelBlock = kWidth * sizeof(Q41);

/// A panel with `Tokens` quantised rows, `pitch` bytes apart.
template <int Tokens>
void multiply_tokens(const std::byte* panel, const std::byte* tokens, size_t pitch, int depth,
                     F32* out) {
  const int blocks = depth / kBlock;
  F32 sums[Tokens] = {};
  for (int b = 0; b < blocks; ++b, panel += kPanelBlock) {
    const auto* words = reinterpret_cast<const int32_t*>(panel);
    I32 low[Tokens] = {}, high[Tokens] = {};
#pragma GCC unroll 4
    for (int w = 0; w < kWords / 2; ++w) {
      const I32 nibbles = simd::load(words + w * kWidth);
      const I32 lower = nibbles & kNibbles, upper = nibbles >> 4 & kNibbles;
      const std::byte* at = tokens + b * kBlock + w * 4;
#pragma GCC unroll 4
      for (int t = 0; t < Tokens; ++t, at += pitch) {
        low[t] = simd::dot_bytes(low[t], lower, simd::broadcast_word(at));
        high[t] = simd::dot_bytes(high[t], upper, simd::broadcast_word(at + kBlock / 2));
      }
    }
    const auto* halves = reinterpret_cast<const uint16_t*>(words + kWords / 2 * kWidth);
    const F32 scales = simd::load(halves), offsets = simd::load(halves + kWidth);
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; ++t) {
      sums[t] = add_block(sums[t], low[t] + high[t], scales, offsets,
                          tokens + size_t(t) * pitch + depth, b, blocks);
    }
  }
  std::copy_n(sums, Tokens, out);
}

using Multiply = void (*)(const std::byte*, const std::byte*, size_t, int, F32*);
constexpr std::array<Multiply, kTokens> kMultiply = {&multiply_tokens<1>, &multiply_tokens<2>,
                                                     &multiply_tokens<3>, &multiply_tokens<4>};

}  // namespace

size_t quantized_bytes(int depth) {
  return size_t(depth) + 2 * sizeof(float) * size_t(depth / kBlock);
}

void quantize_row(const float* from, int depth, std::byte* to) {
  const int blocks = depth / kBlock;
  std::byte* scales = to + depth;
  for (int b = 0; b < blocks; ++b) {
    const auto [scale, sums, squares] =
        round_to_bytes<kBlock>(from + b * kBlock, kSteps, to + b * kBlock);
    const float total = scale * simd::sum_lanes(sums);
    std::memcpy(scales + size_t(b) * sizeof scale, &scale, sizeof scale);
    std::memcpy(scales + size_t(blocks + b) * sizeof total, &total, sizeof total);
  }
}

bool BlockMatrix::takes(const ggml_tensor& weights) {
  return simd::kDotsBytes && weights.type == GGML_TYPE_Q4_1 && ggml_is_contiguous(&weights) &&
         ggml_n_dims(&weights) == 2;
}

BlockMatrix::BlockMatrix(const ggml_tensor& weights)
    : depth_(int(weights.ne[0])), rows_(int(weights.ne[1])) {
  const int blocks = depth_ / kBlock;
  lines_.resize((size_t(panels() * blocks) * kPanelBlock + sizeof(Line) - 1) / sizeof(Line));
  for (int row = 0; row < rows_; ++row) {
    const auto* from = static_cast<const std::byte*>(weights.data) + size_t(row) * weights.nb[1];
    const int lane = row % kWidth;
    for (int b = 0; b < blocks; ++b, from += sizeof(Q41)) {
      Q41 stored;
      std::memcpy(&stored, from, sizeof stored);
      auto* to = const_cast<std::byte*>(block(row / kWidth, b));
      for (int w = 0; w < kWords / 2; ++w) {
        std::memcpy(to + (w * kWidth + lane) * 4, stored.nibbles + 4 * w, 4);
      }
      std::byte* halves = to + kWords / 2 * kWidth * 4 + lane * 2;
      std::memcpy(halves, &stored.scale, 2);
      std::memcpy(halves + kWidth * 2, &stored.offset, 2);
    }
  }
}

int BlockMatrix::panel_rows() { return kWidth; }

const std::byte* BlockMatrix::block(int panel, int index) const {
  const auto* first = reinterpret_cast<const std::byte*>(lines_.data());
  return first + (size_t(panel) * size_t(depth_ / kBlock) + size_t(index)) * kPanelBlock;
}

void BlockMatrix::multiply(int panel, const std::byte* tokens, int n_tokens, float* out,
                           size_t stride) const {
  const size_t pitch = quantized_bytes(depth_);
  const auto wanted = size_t(std::min(kWidth, rows_ - panel * kWidth));
  for (int t = 0; t < n_tokens; t += kTokens) {
    const int taken = std::min(kTokens, n_tokens - t);
    F32 sums[kTokens];
    kMultiply[size_t(taken - 1)](block(panel, 0), tokens + size_t(t) * pitch, pitch, depth_, sums);
    for (int i = 0; i < taken; ++i) {
      std::memcpy(out + size_t(t + i) * stride, &sums[i], wanted * sizeof(float));
    }
  }
}

}  // namespace pith
