#pragma once

#include <span>

namespace pith::behavior {

/// Jacobian J of RMSNorm y = gain * x / s, s = sqrt(mean(x^2) + eps), at one state x:
/// J d = gain * (d / s - x (x . d) / (n_embd s^3)).
template <class T>
class NormJacobian {
 public:
  /// `x` and `gain` are [n_embd] and must outlive this.
  NormJacobian(std::span<const T> x, std::span<const T> gain, double eps);

  /// out = J d: how the normed state moves when the state moves by d. Both [n_embd].
  void push(std::span<const T> d, std::span<T> out) const;

  /// row <- row J: a linear form on the normed state becomes one on the state. [n_embd].
  void pull_back(std::span<T> row) const;

 private:
  std::span<const T> x_, gain_;
  T inverse_;  // 1 / s
  T radial_;   // 1 / (n_embd s^3)
};

}  // namespace pith::behavior
