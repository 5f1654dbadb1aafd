#include <algorithm>

#include "base/timer.h"
#include "session/session.h"

namespace pith {
namespace {

void check_forks(std::span<SessionImpl* const> sessions, std::span<const int32_t> tokens) {
  if (sessions.size() != tokens.size()) {
    throw Error(ErrorCode::usage, std::to_string(sessions.size()) + " sessions and " +
                                      std::to_string(tokens.size()) +
                                      " tokens: each session takes one");
  }
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (sessions[i]->engine != sessions[0]->engine) {
      throw Error(ErrorCode::usage, "sessions that decode together must be forks of one another");
    }
    if (std::ranges::count(sessions, sessions[i]) > 1) {
      throw Error(ErrorCode::usage, "the same session twice among those that decode together");
    }
  }
}

}  // namespace

std::vector<float> SessionImpl::decode_together(std::span<SessionImpl* const> sessions,
                                                std::span<const int32_t> tokens) {
  check_forks(sessions, tokens);
  if (sessions.empty()) return {};
  for (SessionImpl* session : sessions) session->check_fits(1);
  const PhaseTimer timer;
  std::vector<Lane> lanes(sessions.size());
  for (size_t i = 0; i < lanes.size(); ++i) {
    SessionImpl& session = *sessions[i];
    lanes[i] = {&session.cache, tokens[i],
                session.rows_to_observe(1) > 0 ? &session.seen : nullptr};
  }
  std::vector<float> all;
  sessions[0]->engine->run_together(lanes, all);
  const double seconds = timer.seconds(), cpu_seconds = timer.cpu_seconds();
  const size_t n_vocab = all.size() / sessions.size();
  for (size_t i = 0; i < sessions.size(); ++i) {
    SessionImpl& session = *sessions[i];
    const auto own = std::span(all).subspan(i * n_vocab, n_vocab);
    session.logits.assign(own.begin(), own.end());
    session.note_observed(tokens.subspan(i, 1), lanes[i].seen != nullptr ? 1 : 0);
    session.done.time_s.decode += seconds;
    session.done.cpu_s.decode += cpu_seconds;
    ++session.done.tokens_generated;
  }
  for (SessionImpl* session : sessions) session->compress_if_due();
  return all;
}

std::vector<float> decode_together(std::span<Session* const> sessions,
                                   std::span<const int32_t> tokens) {
  std::vector<SessionImpl*> impls(sessions.size());
  std::ranges::transform(sessions, impls.begin(), [](Session* s) { return &s->impl(); });
  return SessionImpl::decode_together(impls, tokens);
}

}  // namespace pith
