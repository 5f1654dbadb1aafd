#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "engine/attention.h"

namespace pith::reference {

/// One half precision number by the definition of its fields.
inline double half(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

/// Numbers of every entry's key (offset 0) or value: [entries, head_dim].
inline std::vector<double> numbers(const AttentionShape& shape, const HeadEntries& head,
                                   KvType type, size_t offset, int entries) {
  std::vector<double> out;
  for (int i = 0; i < entries; ++i) {
    const std::byte* from = head.data + size_t(i) * shape.stride + offset;
    for (int d = 0; d < shape.head_dim; ++d) {
      if (type == KvType::q8_0) {
        const std::byte* block = from + size_t(d / 32) * 34;
        uint16_t scale;
        std::memcpy(&scale, block, sizeof scale);
        out.push_back(half(scale) * int8_t(block[2 + d % 32]));
      } else if (type == KvType::f16) {
        uint16_t bits;
        std::memcpy(&bits, from + size_t(d) * sizeof bits, sizeof bits);
        out.push_back(half(bits));
      } else {
        float value;
        std::memcpy(&value, from + size_t(d) * sizeof value, sizeof value);
        out.push_back(value);
      }
    }
  }
  return out;
}

/// Each block of the largest power of two of head_dim's numbers times the Hadamard matrix, by its
/// definition.
inline std::vector<double> turned_back(const std::vector<double>& rows, int head_dim) {
  const size_t block = size_t(head_dim & -head_dim);
  std::vector<double> out(rows.size());
  for (size_t at = 0; at < rows.size(); at += block) {
    for (size_t i = 0; i < block; ++i) {
      for (size_t j = 0; j < block; ++j) {
        out[at + i] += (std::popcount(i & j) % 2 == 0 ? 1 : -1) * rows[at + j];
      }
      out[at + i] /= std::sqrt(double(block));
    }
  }
  return out;
}

/// sum_i softmax_i(scale q.k_i + log_weight_i) v_i over the first `visible` entries, in double
/// precision; zeros where there is none. out: [head_dim].
inline void attend_row(const AttentionShape& shape, const HeadEntries& head, const float* q,
                       const double* keys, const double* values, int visible, double* out) {
  std::vector<double> weights(size_t(std::max(visible, 0)));
  for (size_t i = 0; i < weights.size(); ++i) {
    double dot = 0;
    for (int d = 0; d < shape.head_dim; ++d) dot += q[d] * *keys++;
    weights[i] = shape.scale * dot + (int(i) < head.n_weights ? head.log_weights[i] : 0);
  }
  std::fill_n(out, shape.head_dim, 0.0);
  if (weights.empty()) return;
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - max);
  for (const double weight : weights) {
    for (int d = 0; d < shape.head_dim; ++d) out[d] += weight / sum * *values++;
  }
}

/// The same for all tokens and query heads: [n_tokens, n_head, head_dim].
inline std::vector<double> attend(const AttentionShape& shape, std::span<const HeadEntries> heads,
                                  const float* q) {
  const size_t dim = size_t(shape.head_dim);
  std::vector<double> out(size_t(shape.n_tokens) * size_t(shape.n_head) * dim);
  for (int h = 0; h < shape.n_head; ++h) {
    const HeadEntries& head = heads[size_t(h / shape.group())];
    const int entries = *std::max_element(head.visible, head.visible + shape.n_tokens);
    auto keys = numbers(shape, head, shape.k_type, 0, entries);
    if (shape.k_type == KvType::q8_0) keys = turned_back(keys, shape.head_dim);
    const auto values = numbers(shape, head, shape.v_type, shape.value_offset, entries);
    for (int t = 0; t < shape.n_tokens; ++t) {
      const size_t row = (size_t(t) * size_t(shape.n_head) + size_t(h)) * dim;
      attend_row(shape, head, q + row, keys.data(), values.data(), head.visible[t], &out[row]);
    }
  }
  return out;
}

}  // namespace pith::reference
