#include "engine/block_product.h"

#include <ggml.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/simd.h"

namespace pith {
namespace {

using simd::F32;
using simd::I32;
using simd::kWidth;

constexpr int kBlock = 32;
constexpr int kWords = kBlock / 4;  // of four bytes
// Tokens whose sums stay in registers, of which AVX-512 has 32 and others 16.
constexpr int kTokens = kWidth == 16 ? 12 : 4;

/// A block of Q4_1 as it is stored: number i is scale * nibble i + offset, the low nibbles first.
struct Q41 {
  uint16_t scale, offset;
  uint8_t nibbles[kBlock / 2];
};
static_assert(sizeof(Q41) == 20);

float largest(const float* x) {
  F32 most = {};
  for (int i = 0; i < kBlock; i += kWidth) {
    const F32 v = simd::load(x + i);
    most = simd::max(most, simd::max(v, -v));
  }
  return simd::max_lane(most);
}

/// x / scale, rounded to whole numbers of at most 127; returns their sum.
int round_block(const float* x, float inverse, std::byte* to) {
  I32 sum = {};
  for (int i = 0; i < kBlock; i += kWidth) {
    const I32 whole = simd::round(simd::load(x + i) * inverse);
    simd::store_bytes(to + i, whole);
    sum += whole;
  }
  return int(simd::sum_lanes(__builtin_convertvector(sum, F32)));
}

template <int Tokens>
void multiply_tokens(const int32_t* bytes, const float* scale, const float* offset,
                     const std::byte* tokens, size_t pitch, int depth, F32* out) {
  const int blocks = depth / kBlock;
  F32 sums[Tokens] = {};
  for (int b = 0; b < blocks; ++b) {
    I32 dots[Tokens] = {};
    for (int w = 0; w < kWords; ++w) {
      const I32 weights = simd::load(bytes + size_t(b * kWords + w) * kWidth);
      const std::byte* at = tokens + b * kBlock + w * 4;
#pragma GCC unroll 12
      for (int t = 0; t < Tokens; ++t) {
        dots[t] = simd::dot_bytes(dots[t], weights, simd::broadcast_word(at + size_t(t) * pitch));
      }
    }
    const F32 scales = simd::load(scale + b * kWidth), offsets = simd::load(offset + b * kWidth);
#pragma GCC unroll 12
    for (int t = 0; t < Tokens; ++t) {
      float factor, sum;
      const std::byte* at = tokens + size_t(t) * pitch + depth;
      std::memcpy(&factor, at + size_t(b) * sizeof factor, sizeof factor);
      std::memcpy(&sum, at + size_t(blocks + b) * sizeof sum, sizeof sum);
      sums[t] = simd::fma(__builtin_convertvector(dots[t], F32), scales * factor, sums[t]);
      sums[t] = simd::fma(offsets, simd::broadcast(sum), sums[t]);
    }
  }
  std::copy_n(sums, Tokens, out);
}

using Multiply = void (*)(const int32_t*, const float*, const float*, const std::byte*, size_t, int,
                          F32*);

// Entry tokens - 1.
constexpr auto kMultiply = []<int... I>(std::integer_sequence<int, I...>) {
  return std::array<Multiply, sizeof...(I)>{&multiply_tokens<I + 1>...};
}(std::make_integer_sequence<int, kTokens>());

}  // namespace

bool in_blocks(const ggml_tensor& weights) {
  return simd::kDotsBytes && weights.type == GGML_TYPE_Q4_1 && ggml_is_contiguous(&weights) &&
         ggml_n_dims(&weights) == 2;
}

size_t quantized_bytes(int depth) {
  return size_t(depth) + 2 * sizeof(float) * size_t(depth / kBlock);
}

void quantize_row(const float* from, int depth, std::byte* to) {
  const int blocks = depth / kBlock;
  std::byte* scales = to + depth;
  for (int b = 0; b < blocks; ++b) {
    const float* x = from + b * kBlock;
    const float scale = largest(x) / 127;
    const int sum = round_block(x, scale > 0 ? 1 / scale : 0, to + b * kBlock);
    const float total = scale * float(sum);
    std::memcpy(scales + size_t(b) * sizeof scale, &scale, sizeof scale);
    std::memcpy(scales + size_t(blocks + b) * sizeof total, &total, sizeof total);
  }
}

int WeightPanel::rows() { return kWidth; }

WeightPanel::WeightPanel(int most_depth)
    : bytes_(size_t(most_depth / 4 * kWidth)),
      scale_(size_t(most_depth / kBlock * kWidth)),
      offset_(scale_.size()) {}

void WeightPanel::unpack(const ggml_tensor& weights, int first) {
  depth_ = int(weights.ne[0]);
  const int count = std::min(kWidth, int(weights.ne[1]) - first);
  if (count < kWidth) {
    std::ranges::fill(bytes_, 0);
    std::ranges::fill(scale_, 0.0F);
    std::ranges::fill(offset_, 0.0F);
  }
  for (int r = 0; r < count; ++r) {
    const auto* row =
        static_cast<const std::byte*>(weights.data) + size_t(first + r) * weights.nb[1];
    for (int b = 0; b < depth_ / kBlock; ++b) {
      Q41 block;
      std::memcpy(&block, row + size_t(b) * sizeof block, sizeof block);
      scale_[size_t(b * kWidth + r)] = simd::half_to_float(block.scale);
      offset_[size_t(b * kWidth + r)] = simd::half_to_float(block.offset);
      int32_t* out = bytes_.data() + b * kWords * kWidth + r;
      for (int w = 0; w < kWords / 2; ++w) {
        uint32_t word;
        std::memcpy(&word, block.nibbles + 4 * w, sizeof word);
        out[w * kWidth] = int32_t(word & 0x0f0f0f0fU);
        out[(w + kWords / 2) * kWidth] = int32_t(word >> 4 & 0x0f0f0f0fU);
      }
    }
  }
}

void WeightPanel::multiply(const std::byte* tokens, int n_tokens, float* out, size_t stride,
                           int wanted) const {
  const size_t pitch = quantized_bytes(depth_);
  for (int t = 0; t < n_tokens;) {
    const int taken = std::min(kTokens, n_tokens - t);
    F32 sums[kTokens];
    kMultiply[size_t(taken - 1)](bytes_.data(), scale_.data(), offset_.data(),
                                 tokens + size_t(t) * pitch, pitch, depth_, sums);
    for (int i = 0; i < taken; ++i, ++t) {
      std::memcpy(out + size_t(t) * stride, &sums[i], size_t(wanted) * sizeof(float));
    }
  }
}

}  // namespace pith
