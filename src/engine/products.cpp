#include "engine/products.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
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

// Of q8_0: an F16 scale and as many bytes.
constexpr int kBlockNumbers = 32;
constexpr int kBlockBytes = kBlockNumbers + int(sizeof(uint16_t));

F32 load_of_block(const std::byte* block, int number) {
  uint16_t scale = 0;
  std::memcpy(&scale, block, sizeof scale);
  const auto* numbers = reinterpret_cast<const int8_t*>(block + sizeof scale);
  return simd::load(numbers + number) * simd::half_to_float(scale);
}

template <KvType Type>
F32 load(const std::byte* row, int column) {
  if constexpr (Type == KvType::q8_0) {
    return load_of_block(row + column / kBlockNumbers * kBlockBytes, column % kBlockNumbers);
  } else if constexpr (Type == KvType::f16) {
    return simd::load(reinterpret_cast<const uint16_t*>(row) + column);
  } else {
    return simd::load(reinterpret_cast<const float*>(row) + column);
  }
}

// Columns from `column` on of b and c.
template <KvType Type, int Rows, int Vectors>
void multiply_panel(Matrix a, TypedRows b, Matrix c, int column, int depth, bool add) {
  c.data += column;
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
    for (int v = 0; v < Vectors; ++v) {
      columns[v] = load<Type>(b.row(k), column + v * kWidth);
    }
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

using Panel = void (*)(Matrix a, TypedRows b, Matrix c, int column, int depth, bool add);
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

const auto& panels_of(KvType type) {
  switch (type) {
    case KvType::q8_0:
      return kPanels<KvType::q8_0>;
    case KvType::f16:
      return kPanels<KvType::f16>;
    default:
      return kPanels<KvType::f32>;
  }
}

const auto& dots_of(KvType type) {
  switch (type) {
    case KvType::q8_0:
      return kDots<KvType::q8_0>;
    case KvType::f16:
      return kDots<KvType::f16>;
    default:
      return kDots<KvType::f32>;
  }
}

// The next piece of `left` when it is cut evenly into as few pieces of at most `most` as possible.
int even_piece(int left, int most) {
  const int pieces = (left + most - 1) / most;
  return (left + pieces - 1) / pieces;
}

}  // namespace

void multiply(Matrix a, TypedRows b, Matrix c, int rows, int depth, int vectors, bool add) {
  const auto& panels = panels_of(b.type);
  for (int at = 0; at < vectors;) {
    const int taken = even_piece(vectors - at, kVectors);
    panels[size_t((rows - 1) * kVectors + taken - 1)](a, b, c, at * kWidth, depth, add);
    at += taken;
  }
}

void widen(TypedRows b, int row, int count, float* to) {
  switch (b.type) {
    case KvType::f32:
      std::memcpy(to, b.row(row), size_t(count) * sizeof(float));
      return;
    case KvType::f16:
      simd::widen(reinterpret_cast<const uint16_t*>(b.row(row)), count, to);
      return;
    case KvType::q8_0:
      for (int i = 0; i < count; i += kWidth)
        simd::store(to + i, load<KvType::q8_0>(b.row(row), i));
      return;
  }
}

void dot(Matrix a, TypedRows b, Matrix c, int rows, int depth, int count) {
  const auto& dots = dots_of(b.type);
  for (int row = 0; row < rows;) {
    const int taken = even_piece(rows - row, kDotRows);
    dots[size_t(taken - 1)](a.from(row), b, c.from(row), depth, count);
    row += taken;
  }
}

}  // namespace pith
