#include "measure/byte_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/byte_block.h"
#include "base/simd.h"

namespace pith::measure {
namespace {

using simd::F32;
using simd::I32;
using simd::kWidth;

constexpr int kBlock = 64;
constexpr int kVectors = kBlock / kWidth;      // of floats
constexpr int kWords = kBlock / (4 * kWidth);  // vectors of bytes
constexpr float kRowSteps = 127, kVectorSteps = 63;
// A row's byte with its sign turned is this much more, and has no sign.
constexpr int kMiddle = 128;
constexpr int32_t kSigns = int32_t(0x80808080U);

ByteBlock round_block(const float* x, float steps, int8_t* to) {
  return round_to_bytes<kBlock>(x, steps, reinterpret_cast<std::byte*>(to));
}

I32 words(const int8_t* at) { return simd::load(reinterpret_cast<const int32_t*>(at)); }

}  // namespace

Eigen::Index ByteRows::blocks() const { return width_ / kBlock; }

ByteRows::ByteRows(Eigen::Index rows, Eigen::Index columns)
    : width_((columns + kBlock - 1) / kBlock * kBlock),
      bytes_(size_t(rows * width_)),
      scales_(RowMatrix<float>::Zero(rows, blocks())),
      squared_norms_(size_t(rows)) {}

ByteRows::ByteRows(const RowMatrix<float>& rows) : ByteRows(rows.rows(), rows.cols()) {
  Row padded = Row::Zero(width_);
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    padded.head(rows.cols()) = rows.row(i);
    set(i, padded.data());
  }
}

size_t ByteRows::bytes(Eigen::Index rows, Eigen::Index columns) {
  const Eigen::Index blocks = (columns + kBlock - 1) / kBlock;
  return size_t(rows) * (size_t(blocks) * (kBlock + sizeof(float)) + sizeof(float));
}

void ByteRows::set(Eigen::Index i, const float* row) {
  F32 squares = {};
  for (Eigen::Index b = 0; b < blocks(); ++b) {
    const ByteBlock block =
        round_block(row + b * kBlock, kRowSteps, bytes_.data() + width_ * i + b * kBlock);
    scales_(i, b) = block.scale;
    const F32 scale = simd::broadcast(block.scale);
    squares = simd::fma(scale, scale * block.squares, squares);
  }
  squared_norms_[size_t(i)] = simd::sum_lanes(squares);
}

float ByteRows::dot(int i, const Row& x) const {
  const int8_t* at = bytes(i);
  const float *scale = scales_.row(i).data(), *with = x.data();
  F32 sum = {};
  for (Eigen::Index b = 0; b < blocks(); ++b, at += kBlock, with += kBlock) {
    F32 part = {};
    for (int v = 0; v < kVectors; ++v)
      part = simd::fma(simd::load(at + v * kWidth), simd::load(with + v * kWidth), part);
    sum = simd::fma(simd::broadcast(scale[b]), part, sum);
  }
  return simd::sum_lanes(sum);
}

void ByteRows::add(int i, float factor, Row& x) const {
  const int8_t* at = bytes(i);
  const float* scale = scales_.row(i).data();
  float* to = x.data();
  for (Eigen::Index b = 0; b < blocks(); ++b) {
    const F32 factors = simd::broadcast(factor * scale[b]);
    for (int v = 0; v < kVectors; ++v, at += kWidth, to += kWidth)
      simd::store(to, simd::fma(factors, simd::load(at), simd::load(to)));
  }
}

void ByteRows::gains(std::span<const int> some, const Row& x, std::vector<float>& gain) const {
  std::vector<int8_t> rounded(static_cast<size_t>(width_));
  Row scale(blocks());
  // Where the products of a block begin, so that the middle of the row's bytes counts for nothing.
  RowMatrix<int32_t> start = RowMatrix<int32_t>::Zero(blocks(), kWidth);
  for (Eigen::Index b = 0; b < blocks(); ++b) {
    const ByteBlock block =
        round_block(x.data() + b * kBlock, kVectorSteps, rounded.data() + b * kBlock);
    scale[b] = block.scale;
    start(b, 0) = -kMiddle * int32_t(simd::sum_lanes(block.sums));
  }
  Row products(blocks());
  for (const int i : some) {
    const int8_t *with = rounded.data(), *at = bytes(i);
    products = scales_.row(i).cwiseProduct(scale);
    F32 sum = {};
    for (Eigen::Index b = 0; b < blocks(); ++b) {
      I32 part = simd::load(start.row(b).data());
      for (int w = 0; w < kWords; ++w, with += 4 * kWidth, at += 4 * kWidth)
        part = simd::dot_bytes(part, words(at) ^ kSigns, words(with));
      sum = simd::fma(__builtin_convertvector(part, F32), simd::broadcast(products[b]), sum);
    }
    const float norm = std::sqrt(squared_norm(i));
    gain[size_t(i)] = norm > 0 ? simd::sum_lanes(sum) / norm : 0;
  }
}

}  // namespace pith::measure
