#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#pragma GCC diagnostic push
// GCC 12 takes the header's own deliberately undefined values for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

/// Vectors of floats as wide as the processor this is compiled for: AVX-512, AVX2 with FMA and
/// F16C, or 128 bits of whatever the compiler finds. The compilers' vector extensions give + - *
/// and comparison; the functions here add what they lack. Nothing else in pith uses intrinsics.
namespace pith::simd {

#if defined(__AVX512F__)
#define PITH_SIMD_AVX512
inline constexpr int kWidth = 16;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define PITH_SIMD_AVX2
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;
#endif

using F32 = float __attribute__((vector_size(kWidth * sizeof(float))));
using I32 = int32_t __attribute__((vector_size(kWidth * sizeof(int32_t))));

inline F32 load(const float* from) {
  F32 x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
inline void store(float* to, F32 x) { std::memcpy(to, &x, sizeof x); }
inline F32 broadcast(float x) { return x - F32{}; }

/// 0, 1, 2, ..
inline I32 lane_numbers() {
  I32 lanes;
  for (int i = 0; i < kWidth; ++i) lanes[i] = i;
  return lanes;
}

/// a * b + c, rounded once where the processor can.
inline F32 fma(F32 a, F32 b, F32 c) {
#if defined(PITH_SIMD_AVX512)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(PITH_SIMD_AVX2)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

inline F32 max(F32 a, F32 b) {
#if defined(PITH_SIMD_AVX512)
  return _mm512_max_ps(a, b);
#elif defined(PITH_SIMD_AVX2)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

inline F32 min(F32 a, F32 b) {
#if defined(PITH_SIMD_AVX512)
  return _mm512_min_ps(a, b);
#elif defined(PITH_SIMD_AVX2)
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

inline F32 abs(F32 x) { return (F32)((I32)x & 0x7fffffff); }

inline float max_lane(F32 x) {
#if defined(PITH_SIMD_AVX512)
  return _mm512_reduce_max_ps(x);
#else
  float best = x[0];
  for (int i = 1; i < kWidth; ++i) best = x[i] > best ? x[i] : best;
  return best;
#endif
}

inline float sum_lanes(F32 x) {
#if defined(PITH_SIMD_AVX512)
  return _mm512_reduce_add_ps(x);
#else
  float sum = x[0];
  for (int i = 1; i < kWidth; ++i) sum += x[i];
  return sum;
#endif
}

inline int32_t sum_lanes(I32 x) {
#if defined(PITH_SIMD_AVX512)
  return _mm512_reduce_add_epi32((__m512i)x);
#else
  int32_t sum = 0;
  for (int i = 0; i < kWidth; ++i) sum += x[i];
  return sum;
#endif
}

/// Whether dot_bytes() is faster than what it stands for.
#if defined(PITH_SIMD_AVX2) || (defined(PITH_SIMD_AVX512) && defined(__AVX512BW__))
inline constexpr bool kDotsBytes = true;
#else
inline constexpr bool kDotsBytes = false;
#endif

inline I32 load(const int32_t* from) {
  I32 x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

/// Four bytes, in every lane.
inline I32 broadcast_word(const std::byte* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof word);
  return word - I32{};
}

/// Adds to each lane the products of its four bytes: those of `a`, which have no sign, with those
/// of `b`, which have. Two products must not add up to 2^15.
inline I32 dot_bytes(I32 sums, I32 a, I32 b) {
#if defined(PITH_SIMD_AVX512) && defined(__AVX512VNNI__)
  return (I32)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
#elif defined(PITH_SIMD_AVX512) && defined(__AVX512BW__)
  const __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
  return sums + (I32)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif defined(PITH_SIMD_AVX2) && defined(__AVXVNNI__)
  return (I32)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b);
#elif defined(PITH_SIMD_AVX2)
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
  return sums + (I32)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
  for (int i = 0; i < kWidth; ++i) {
    for (int byte = 0; byte < 32; byte += 8) {
      sums[i] += int32_t(uint8_t(a[i] >> byte)) * int32_t(int8_t(b[i] >> byte));
    }
  }
  return sums;
#endif
}

/// Where floats are whole: x + kWholes - kWholes is the nearest whole number, ties to even, and the
/// low byte of x + kWholes that of this number, for |x| < 2^22.
inline constexpr float kWholes = 0x1.8p23F;

/// The low bytes of kWidth whole numbers.
inline void store_bytes(std::byte* to, I32 x) {
#if defined(PITH_SIMD_AVX512)
  const __m128i bytes = _mm512_cvtepi32_epi8((__m512i)x);
  std::memcpy(to, &bytes, sizeof bytes);
#else
  for (int i = 0; i < kWidth; ++i) to[i] = std::byte(x[i]);
#endif
}

namespace detail {

inline F32 floor(F32 x) {
#if defined(PITH_SIMD_AVX512)
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif defined(PITH_SIMD_AVX2)
  return _mm256_floor_ps(x);
#else
  const F32 truncated = __builtin_convertvector(__builtin_convertvector(x, I32), F32);
  return truncated > x ? truncated - 1.0F : truncated;
#endif
}

/// x * 2^n for whole n in [-127, 127]; n = -127 gives 0.
inline F32 scale_by_power(F32 x, F32 n) {
  return x * std::bit_cast<F32>((__builtin_convertvector(n, I32) + 127) << 23);
}

}  // namespace detail

/// 2^x for x < 128 with a relative error below 2e-7; exactly 0 from -127 down, -inf included.
/// The polynomial is the minimax one of degree 5 for the relative error on [0, 1] (7.5e-8).
inline F32 exp2(F32 x) {
  x = max(x, broadcast(-127.0F));
  const F32 whole = detail::floor(x);
  const F32 rest = x - whole;
  F32 y = fma(broadcast(1.87757667e-3F), rest, broadcast(8.98934009e-3F));
  y = fma(y, rest, broadcast(5.58263181e-2F));
  y = fma(y, rest, broadcast(2.40153617e-1F));
  y = fma(y, rest, broadcast(6.93153073e-1F));
  y = fma(y, rest, broadcast(9.99999925e-1F));
  return detail::scale_by_power(y, whole);
}

/// One IEEE half precision number, given by its bits.
inline float half_to_float(uint16_t half) {
#if defined(__F16C__)
  return _cvtsh_ss(half);
#else
  const uint32_t sign = uint32_t(half & 0x8000U) << 16;
  const uint32_t magnitude = half & 0x7fffU;
  // Exponents move by a multiplication, which makes subnormal halves normal; infinity and NaN need
  // the largest exponent.
  const float finite = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const uint32_t bits =
      magnitude < 0x7c00U ? std::bit_cast<uint32_t>(finite) : 0x7f800000U | (magnitude << 13);
  return std::bit_cast<float>(sign | bits);
#endif
}

/// kWidth halves, given by their bits.
inline F32 load(const uint16_t* from) {
#if defined(PITH_SIMD_AVX512)
  __m256i halves;
  std::memcpy(&halves, from, sizeof halves);
  return _mm512_cvtph_ps(halves);
#elif defined(PITH_SIMD_AVX2)
  __m128i halves;
  std::memcpy(&halves, from, sizeof halves);
  return _mm256_cvtph_ps(halves);
#else
  F32 x;
  for (int i = 0; i < kWidth; ++i) x[i] = half_to_float(from[i]);
  return x;
#endif
}

/// kWidth signed bytes.
inline F32 load(const int8_t* from) {
#if defined(PITH_SIMD_AVX512)
  __m128i bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
#elif defined(PITH_SIMD_AVX2)
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)from)));
#else
  F32 x;
  for (int i = 0; i < kWidth; ++i) x[i] = from[i];
  return x;
#endif
}

/// Any number of halves, given by their bits, to floats.
inline void widen(const uint16_t* from, int count, float* to) {
  int i = 0;
  for (; i + kWidth <= count; i += kWidth) store(to + i, load(from + i));
  for (; i < count; ++i) to[i] = half_to_float(from[i]);
}

/// Sums of neighbouring lanes: those of a in the lower half of the result, those of b in the upper.
inline F32 pair_sums(F32 a, F32 b) {
#if defined(PITH_SIMD_AVX512)
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(PITH_SIMD_AVX2)
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/// Adds up neighbouring lanes of Count vectors until one is left. With Count = kWidth, lane i is
/// the sum of vector i.
template <int Count>
F32 pair_tree(const F32* x) {
  if constexpr (Count == 1) {
    return x[0];
  } else {
    return pair_sums(pair_tree<Count / 2>(x), pair_tree<Count / 2>(x + Count / 2));
  }
}

/// Turns kWidth vectors, the rows of a square, into its columns.
inline void transpose(F32 (&rows)[kWidth]) {
  // Each pass is a perfect shuffle of the whole square; log2(kWidth) of them swap rows and columns.
  for (int pass = 1; pass < kWidth; pass *= 2) {
    F32 next[kWidth];
#pragma GCC unroll 16
    for (int i = 0; i < kWidth / 2; ++i) {
      const F32 a = rows[i], b = rows[i + kWidth / 2];
#if defined(PITH_SIMD_AVX512)
      next[2 * i] =
          __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                14, 30, 15, 31);
#elif defined(PITH_SIMD_AVX2)
      next[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
      next[2 * i] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
    }
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) rows[i] = next[i];
  }
}

}  // namespace pith::simd
