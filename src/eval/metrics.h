#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pith {

/// How one next-token distribution changed: P of the full cache against Q of the compressed one.
struct PredictionChange {
  double kl = 0;          ///< sum_v P(v) (ln P(v) - ln Q(v)), nats
  bool same_top = false;  ///< equal argmax; ties go to the lower token id
  /// Of the token that really follows; absent where none does.
  std::optional<double> dnll;  ///< ln P(token) - ln Q(token), nats
  std::optional<double> dp;    ///< Q(token) - P(token)
};

/// Compares two rows of logits [n_vocab] in double, with a log-sum-exp relative to the maximum.
/// A token of logit -inf has probability zero.
PredictionChange compare_logits(std::span<const float> full, std::span<const float> compressed,
                                std::optional<int32_t> next_token);

/// Mean of `values`; NaN where there are none.
double mean(std::span<const double> values);

/// Standard error of the mean, from the sample's variance; 0 for a single value, NaN for none.
double standard_error(std::span<const double> values);

/// Quantile q in [0, 1] with linear interpolation between order statistics; NaN for no values.
double quantile(std::span<const double> values, double q);

/// A ratio of two means with its interval.
struct Ratio {
  double value = 0, lo = 0, hi = 0;
};

/// mean(numerator) / mean(denominator) of paired rows with a 95 % percentile interval from 10,000
/// bootstrap resamples of the rows (fixed seed). A single row has no interval: its ends are NaN.
Ratio paired_ratio(std::span<const double> numerator, std::span<const double> denominator);

}  // namespace pith
