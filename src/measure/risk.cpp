#include "measure/risk.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numeric>

namespace pith::measure {

template <class T>
std::vector<double> spectrum(const RowMatrix<T>& side) {
  if (side.size() == 0) return {};
  if (!side.allFinite()) throw Error(ErrorCode::internal, "response profiles are not finite");
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(side.template cast<double>(),
                                                              Eigen::EigenvaluesOnly);
  if (solver.info() != Eigen::Success) {
    throw Error(ErrorCode::internal, "the eigenvalues of a head's responses did not converge");
  }
  const Eigen::VectorXd& rising = solver.eigenvalues();
  std::vector<double> out;
  out.reserve(size_t(rising.size()));
  for (Eigen::Index i = rising.size(); i-- > 0;) out.push_back(std::max(rising[i], 0.0));
  return out;
}

double tail_sum(std::span<const double> eigenvalues, int k) {
  const auto rest = eigenvalues.subspan(std::min(eigenvalues.size(), size_t(k)));
  return std::accumulate(rest.rbegin(), rest.rend(), 0.0);  // the small ones first
}

RiskBounds risk_bounds(std::span<const double> eigenvalues, double tr, int kept, int entries) {
  const double k = kept;
  return {.aware = tail_sum(eigenvalues, kept / 3) / k,
          .agnostic = tr / k,
          .streaming = std::log(2 + entries / k) / k * tr};
}

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

template std::vector<double> spectrum<float>(const RowMatrix<float>&);
template std::vector<double> spectrum<double>(const RowMatrix<double>&);

}  // namespace pith::measure
