#include "behavior/readout.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>

namespace pith::behavior {
namespace {

/// diag(sqrt p)(I - 1 p^T) A, written out.
RowMatrix<double> whitened(const RowMatrix<double>& map, const Eigen::VectorXd& p) {
  const auto k = p.size();
  const Eigen::MatrixXd centre =
      Eigen::MatrixXd::Identity(k, k) - Eigen::VectorXd::Ones(k) * p.transpose();
  return p.cwiseSqrt().asDiagonal() * centre * map;
}

struct Shape {
  int topk, n_embd;
};

class QuadraticForm : public testing::TestWithParam<Shape> {
 protected:
  QuadraticForm()
      : map_(RowMatrix<double>::Zero(GetParam().topk, GetParam().n_embd)), p_(GetParam().topk) {
    for (Eigen::Index i = 0; i < map_.size(); ++i) map_.data()[i] = std::sin(double(3 * i + 1));
    for (Eigen::Index j = 0; j < p_.size(); ++j) p_[j] = 1.0 / double(j + 2);
    p_ /= p_.sum();
  }

  RowMatrix<double> form(int rank) const {
    return quadratic_form(map_, {p_.data(), size_t(p_.size())}, rank);
  }

  RowMatrix<double> map_;
  Eigen::VectorXd p_;
};

TEST_P(QuadraticForm, OfFullRankHasTheGramMatrixOfItsDefinition) {
  const auto expected = whitened(map_, p_);
  const auto full = form(GetParam().topk);
  EXPECT_EQ(full.rows(), GetParam().topk);
  EXPECT_LT((full.transpose() * full - expected.transpose() * expected).norm(), 1e-12);
}

TEST_P(QuadraticForm, CutsToTheLeadingSingularValues) {
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(whitened(map_, p_), Eigen::ComputeThinV);
  const auto cut = form(2);
  const Eigen::MatrixXd leading = svd.matrixV().leftCols(2) *
                                  svd.singularValues().head(2).cwiseAbs2().asDiagonal() *
                                  svd.matrixV().leftCols(2).transpose();
  EXPECT_LT((cut.transpose() * cut - leading).norm(), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Shapes, QuadraticForm, testing::Values(Shape{5, 7}, Shape{9, 4}),
                         [](const auto& tested) {
                           return "K" + std::to_string(tested.param.topk) + "D" +
                                  std::to_string(tested.param.n_embd);
                         });

}  // namespace
}  // namespace pith::behavior
