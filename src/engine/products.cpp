#include "engine/products.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace pith {
namespace {

using simd::F32;
using simd::kWidth;

// Sums that the kernels hold in registers, of which AVX-512 has 32 and others 16: kPanel rows x
// kVectors vectors for multiply(), kDotEntries entries x kDotRows rows for dot().
constexpr int kVectors = kWidth == 16 ? 4 : 2;
constexpr int kDotEntries = 4;
constexpr int kDotRows = kWidth == 16 ? 4 : 2;

template <KvType Type>
F32 load(const std::byte* row, int column) {
  if constexpr (Type == KvType::f16) {
    return simd::load(reinterpret_cast<const uint16_t*>(row) + column);
  } else {
    return simd::load(reinterpret_cast<const float*>(row) + column);
  }
}

template <KvType Type, int Rows, int Vectors>
void multiply_panel(Matrix a, TypedRows b, Matrix c, int depth, bool add) {
  F32 sums[Rows][Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      sums[r][v] = add ? simd::load(c.row(r) + v * kWidth) : F32{};
    }
  }
  for (int k = 0; k < depth; ++k) {
    F32 columns[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) columns[v] = load<Type>(b.row(k), v * kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const F32 factor = simd::broadcast(a.row(r)[k]);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) sums[r][v] = simd::fma(factor, columns[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) simd::store(c.row(r) + v * kWidth, sums[r][v]);
  }
}

template <KvType Type, int Rows>
void dot_rows(Matrix a, TypedRows b, Matrix c, int depth, int count) {
  F32 partial[Rows][kWidth / kDotEntries];
  for (int first = 0; first < kWidth; first += kDotEntries) {
    F32 sums[Rows][kDotEntries] = {};
    const std::byte* entries[kDotEntries];
#pragma GCC unroll 8
    for (int i = 0; i < kDotEntries; ++i) entries[i] = b.row(std::min(first + i, count - 1));
    for (int d = 0; d < depth; d += kWidth) {
      F32 columns[kDotEntries];
#pragma GCC unroll 8
      for (int i = 0; i < kDotEntries; ++i) columns[i] = load<Type>(entries[i], d);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const F32 factor = simd::load(a.row(r) + d);
#pragma GCC unroll 8
        for (int i = 0; i < kDotEntries; ++i)
          sums[r][i] = simd::fma(factor, columns[i], sums[r][i]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      partial[r][first / kDotEntries] = simd::pair_tree<kDotEntries>(sums[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    simd::store(c.row(r), simd::pair_tree<kWidth / kDotEntries>(partial[r]));
  }
}

using Panel = void (*)(Matrix a, TypedRows b, Matrix c, int depth, bool add);
using Dots = void (*)(Matrix a, TypedRows b, Matrix c, int depth, int count);

// Entry (rows - 1) * kVectors + vectors - 1.
template <KvType Type>
constexpr auto kPanels = []<int... I>(std::integer_sequence<int, I...>) {
  return std::array<Panel, sizeof...(I)>{
      &multiply_panel<Type, I / kVectors + 1, I % kVectors + 1>...};
}(std::make_integer_sequence<int, kPanel * kVectors>());

// Entry rows - 1.
template <KvType Type>
constexpr auto kDots = []<int... I>(std::integer_sequence<int, I...>) {
  return std::array<Dots, sizeof...(I)>{&dot_rows<Type, I + 1>...};
}(std::make_integer_sequence<int, kDotRows>());

// The next piece of `left` when it is cut evenly into as few pieces of at most `most` as possible.
int even_piece(int left, int most) {
  const int pieces = (left + most - 1) / most;
  return (left + pieces - 1) / pieces;
}

}  // namespace

void multiply(Matrix a, TypedRows b, Matrix c, int rows, int depth, int vectors, bool add) {
  const bool half = b.type == KvType::f16;
  const auto& panels = half ? kPanels<KvType::f16> : kPanels<KvType::f32>;
  while (vectors > 0) {
    const int taken = even_piece(vectors, kVectors);
    panels[size_t((rows - 1) * kVectors + taken - 1)](a, b, c, depth, add);
    b.data += size_t(taken * kWidth) * (half ? sizeof(uint16_t) : sizeof(float));
    c.data += taken * kWidth;
    vectors -= taken;
  }
}

void dot(Matrix a, TypedRows b, Matrix c, int rows, int depth, int count) {
  const auto& dots = b.type == KvType::f16 ? kDots<KvType::f16> : kDots<KvType::f32>;
  for (int row = 0; row < rows;) {
    const int taken = even_piece(rows - row, kDotRows);
    dots[size_t(taken - 1)](a.from(row), b, c.from(row), depth, count);
    row += taken;
  }
}

}  // namespace pith
