#pragma once

#include <cstddef>

#include "base/simd.h"
#include "pith/pith.hpp"

/// The products of attention, as small as their operands: register-blocked, single-threaded, F32.
namespace pith {

/// Rows of floats in scratch, each on a vector boundary.
struct Matrix {
  float* data;
  size_t stride;  // floats from row to row

  float* row(int r) const { return data + size_t(r) * stride; }
  Matrix from(int r) const { return {row(r), stride}; }
};

/// Rows of numbers as the cache holds them. Those in blocks have whole blocks in a row.
struct TypedRows {
  const std::byte* data;
  size_t stride;  // bytes from row to row
  KvType type;

  const std::byte* row(int r) const { return data + size_t(r) * stride; }
  TypedRows from(int r) const { return {row(r), stride, type}; }
};

inline TypedRows typed(Matrix m) {
  return {reinterpret_cast<const std::byte*>(m.data), m.stride * sizeof(float), KvType::f32};
}

/// Rows that multiply() takes at a time.
inline constexpr int kPanel = 6;

/// c = a b, or c += a b where `add`. a: [rows, depth], rows <= kPanel; b: [depth, columns]; c:
/// [rows, columns]. Columns are counted in whole vectors.
void multiply(Matrix a, TypedRows b, Matrix c, int rows, int depth, int vectors, bool add);

/// Columns [0, count) of a row as floats, in `to`.
void widen(TypedRows b, int row, int count, float* to);

/// c[r, i] = a[r] . b[i] for i < kWidth. a: [rows, depth]; b: [count, depth]; depth a multiple of
/// kWidth. Columns of c from `count` on get any finite or infinite number.
void dot(Matrix a, TypedRows b, Matrix c, int rows, int depth, int count);

}  // namespace pith
