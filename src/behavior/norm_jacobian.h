#pragma once

#include <span>
#include <vector>

namespace pith::behavior {

enum class NormKind {
  none,  ///< y = x
  rms,   ///< y = gain * x / s, s = sqrt(mean(x^2) + eps)
  layer  ///< the same of x less its mean; a bias moves nothing
};

/// Jacobian J of a norm at one state x [n_embd]. RMSNorm: J d = gain * (d / s - x (x . d) / (n_embd
/// s^3)); LayerNorm: with x and d less their means.
template <class T>
class NormJacobian {
 public:
  /// `gain` is [n_embd] and must outlive this; it is not read with NormKind::none.
  NormJacobian(NormKind kind, std::span<const T> x, std::span<const T> gain, double eps);

  /// out = J d: how the normed state moves when the state moves by d. Both [n_embd].
  void push(std::span<const T> d, std::span<T> out) const;

  /// row <- row J: a linear form on the normed state becomes one on the state. [n_embd].
  void pull_back(std::span<T> row) const;

 private:
  /// (d - mean d) / s - x (x . d) / (n_embd s^3); its matrix is symmetric.
  void project(std::span<T> d) const;

  NormKind kind_;
  std::vector<T> x_;  // less its mean with LayerNorm
  std::span<const T> gain_;
  T inverse_ = 1;  // 1 / s
  T radial_ = 0;   // 1 / (n_embd s^3)
};

}  // namespace pith::behavior
