#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "session/session.h"

namespace pith {

/// Tokens that a trial predicts: the last that were read.
inline constexpr int kTrialTokens = 64;
/// Fewest tokens that a trial can be made on: at least as many are compressed as are predicted.
inline constexpr int kLeastTokensOfTrial = 2 * kTrialTokens;

/// What compressions of a session do to the predictions of its last kTrialTokens tokens. A copy of
/// the session that ends before them is compressed and reads them, teacher-forced; the logits after
/// each are compared with those that the uncompressed copy gives in the same way.
///
/// Beside the session's own cache one copy is held at a time. The session must outlive the trial
/// and stay as it is.
class Trial {
 public:
  using Compress = std::function<void(SessionImpl&)>;

  /// Observes what policies `need` of the tokens before the last ones and runs their passes. The
  /// tail is read again, so prefill need not have observed it; queries of the prompt are those that
  /// prefill observed. Throws Error(usage) for fewer tokens than kLeastTokensOfTrial or a cache
  /// that was compressed, Error(memory) where a copy does not fit, Error(interrupted).
  Trial(const SessionImpl& session, const Needs& need, const Progress& progress);

  /// Mean over the last tokens of KL(full || compressed) in nats; `compress` is given the copy.
  double kl(const Compress& compress) const;

 private:
  std::unique_ptr<SessionImpl> copy() const;
  std::vector<float> predict(SessionImpl& copy) const;

  const SessionImpl& session_;
  int32_t end_;                         ///< positions before it are compressed
  std::unique_ptr<SessionImpl> state_;  ///< what the copies know beside their cache, which is empty
  std::vector<float> full_;             ///< [kTrialTokens, n_vocab]
};

/// Throws Error(usage) where there are too few tokens for a trial.
void check_trial(int64_t n_tokens);

/// Throws Error(usage) for a bound that no search can go by.
void check_max_kl(double max_kl);

/// The budgets that a search for the smallest goes through, ascending: shares of the cache, each at
/// most 1.5 times the one before.
std::span<const std::string> trial_budgets();

}  // namespace pith
