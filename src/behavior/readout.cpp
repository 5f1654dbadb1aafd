#include "behavior/readout.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace pith::behavior {
namespace {

/// Q with B ~ Q diag(..) .. on the side of the smaller Gram matrix: the leading rows of U^T B.
RowMatrix<double> leading_rows(const RowMatrix<double>& b, int rank) {
  using Solver = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>;
  if (b.rows() <= b.cols()) {
    const Solver solver(b * b.transpose());
    return solver.eigenvectors().rightCols(rank).transpose() * b;
  }
  const Solver solver(b.transpose() * b);
  const auto lengths = solver.eigenvalues().tail(rank).cwiseMax(0).cwiseSqrt();
  return lengths.asDiagonal() * solver.eigenvectors().rightCols(rank).transpose();
}

}  // namespace

template <class T>
RowMatrix<T> quadratic_form(const RowMatrix<T>& logit_map, std::span<const double> p, int rank) {
  const Eigen::Map<const Eigen::VectorXd> weight(p.data(), std::ssize(p));
  RowMatrix<double> b = logit_map.template cast<double>();
  const Eigen::RowVectorXd mean = weight.transpose() * b;
  b.rowwise() -= mean;
  b = weight.cwiseSqrt().asDiagonal() * b;
  RowMatrix<T> form = RowMatrix<T>::Zero(rank, b.cols());
  const int kept = std::min<int>(rank, int(std::min(b.rows(), b.cols())));
  form.topRows(kept) = leading_rows(b, kept).template cast<T>();
  return form;
}

template <class T>
Readout<T>::Readout(int positions, int rank, int n_embd)
    : positions_(positions),
      rank_(rank),
      rows_(RowMatrix<T>::Zero(Eigen::Index(rank) * padded(positions), n_embd)) {}

template <class T>
void Readout<T>::set(int position, const RowMatrix<T>& map) {
  for (int j = 0; j < rank_; ++j) rows_.row(j * lanes() + position) = map.row(j);
}

template <class T>
void Readout<T>::pull_back(int position, const NormJacobian<T>& norm) {
  for (int j = 0; j < rank_; ++j) {
    norm.pull_back({rows_.row(j * lanes() + position).data(), size_t(rows_.cols())});
  }
}

template class Readout<float>;
template class Readout<double>;
template RowMatrix<float> quadratic_form(const RowMatrix<float>&, std::span<const double>, int);
template RowMatrix<double> quadratic_form(const RowMatrix<double>&, std::span<const double>, int);

}  // namespace pith::behavior
