#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "measure/features.h"

namespace pith::measure {

/// Rows of floats, rounded to bytes with a scale for every 64 columns: a search that reads all of
/// them again and again reads a quarter of the memory, and finds the best ones by products of
/// bytes.
class ByteRows {
 public:
  using Row = Eigen::Matrix<float, 1, Eigen::Dynamic>;

  /// Rows of zeros.
  ByteRows(Eigen::Index rows, Eigen::Index columns);
  explicit ByteRows(const RowMatrix<float>& rows);
  /// Memory of such rows.
  static size_t bytes(Eigen::Index rows, Eigen::Index columns);

  /// Row i becomes what is at `row`: width() numbers, zeros behind the columns.
  void set(Eigen::Index i, const float* row);

  Eigen::Index rows() const { return scales_.rows(); }
  /// Numbers of a vector that the functions below take: the columns, and zeros.
  Eigen::Index width() const { return width_; }
  /// |row i|^2.
  float squared_norm(int i) const { return squared_norms_[size_t(i)]; }
  float dot(int i, const Row& x) const;
  /// x += factor row i.
  void add(int i, float factor, Row& x) const;
  /// gain[i] = row i . x / |row i| for each i of `some`, 0 for a row of zeros; x is rounded to 1 /
  /// 63 of the largest of each 64 columns.
  void gains(std::span<const int> some, const Row& x, std::vector<float>& gain) const;

 private:
  Eigen::Index blocks() const;
  const int8_t* bytes(int i) const { return bytes_.data() + width_ * i; }

  Eigen::Index width_;
  AlignedVector<int8_t> bytes_;  // [rows, width]; anything in rows of zeros, whose scale is 0
  RowMatrix<float> scales_;      // [rows, blocks]
  std::vector<float> squared_norms_;
};

}  // namespace pith::measure
