#include "session/trial.h"

#include <algorithm>
#include <numeric>

#include "base/divergence.h"
#include "base/parallel.h"

namespace pith {
namespace {

/// Throws where entries of what was read are gone: there is nothing to compare with.
void check_whole(const SessionImpl& session) {
  const int64_t whole = int64_t{session.cache.next_position()} * session.model.shape().n_rows();
  if (session.cache.total_entries() == whole) return;
  throw Error(ErrorCode::usage,
              "a trial takes the whole cache, and this one was compressed before");
}

/// Mean KL(full || other) of logits [positions, n_vocab].
double mean_kl(std::span<const float> full, std::span<const float> other, size_t n_vocab,
               int threads) {
  std::vector<double> kl(full.size() / n_vocab);
  parallel_for(int(kl.size()), threads, [&](int i) {
    const auto p = full.subspan(size_t(i) * n_vocab, n_vocab);
    const auto q = other.subspan(size_t(i) * n_vocab, n_vocab);
    kl[size_t(i)] = kl_divergence(p, log_sum_exp(p), q, log_sum_exp(q));
  });
  return std::accumulate(kl.begin(), kl.end(), 0.0) / double(kl.size());
}

}  // namespace

void check_trial(int64_t n_tokens) {
  if (n_tokens >= kLeastTokensOfTrial) return;
  throw Error(ErrorCode::usage, "a trial predicts the last " + std::to_string(kTrialTokens) +
                                    " tokens over the compressed others and takes at least " +
                                    std::to_string(kLeastTokensOfTrial) +
                                    " tokens, and there are " + std::to_string(n_tokens) +
                                    "; give a budget instead");
}

Trial::Trial(const SessionImpl& session, const Needs& need, const Progress& progress)
    : session_(session), end_(session.cache.next_position() - kTrialTokens) {
  check_trial(session.cache.next_position());
  check_whole(session);
  session.check_memory(session.cache.bytes().resident +
                           session.held_for({.prompt = need.prompt, .future = need.future}),
                       "a copy of the cache");
  report_share(progress, 0);
  state_ = session.fork();
  state_->generating.reset();
  const auto tail = std::min(end_, int32_t(need.tail));
  state_->trim(end_ - tail);
  if (tail > 0) {
    state_->prefill(std::span(session.tokens).subspan(size_t(end_ - tail), size_t(tail)), need, {});
  }
  state_->run_passes(need, part_of(progress, 0, 1));
  state_->cache.trim(0);  // gives its memory back
  full_ = predict(*copy());
  report_share(progress, 1);
}

std::unique_ptr<SessionImpl> Trial::copy() const {
  auto out = state_->fork();
  out->cache = session_.cache.fork();
  out->cache.trim(end_);
  return out;
}

std::vector<float> Trial::predict(SessionImpl& copy) const {
  return copy.evaluate(std::span(session_.tokens).subspan(size_t(end_), kTrialTokens));
}

double Trial::kl(const Compress& compress) const {
  const auto compressed = copy();
  compress(*compressed);
  return mean_kl(full_, predict(*compressed), size_t(session_.model.shape().n_vocab),
                 session_.options.threads);
}

}  // namespace pith
