#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace pith::reference {

/// Eigenvalues of a symmetric matrix [n, n], falling, by Jacobi's rotations: each makes one number
/// beside the diagonal zero, until all are.
inline std::vector<double> eigenvalues(std::vector<double> a, int n) {
  const auto at = [&](int i, int j) -> double& { return a[size_t(i * n + j)]; };
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) {
        if (at(p, q) == 0) continue;
        const double angle = std::atan2(2 * at(p, q), at(q, q) - at(p, p)) / 2;
        const double c = std::cos(angle), s = std::sin(angle);
        for (int k = 0; k < n; ++k) {
          const double kp = at(k, p), kq = at(k, q);
          at(k, p) = c * kp - s * kq;
          at(k, q) = s * kp + c * kq;
        }
        for (int k = 0; k < n; ++k) {
          const double pk = at(p, k), qk = at(q, k);
          at(p, k) = c * pk - s * qk;
          at(q, k) = s * pk + c * qk;
        }
      }
    }
  }
  std::vector<double> out;
  for (int i = 0; i < n; ++i) out.push_back(at(i, i));
  std::sort(out.rbegin(), out.rend());
  return out;
}

}  // namespace pith::reference
