// Several continuations of one prompt, decoded in one pass or in turns, with the whole cache and
// with a tenth: milliseconds for a token of each. "apart" decodes together, too, but of sessions
// that were compressed each by itself, so that the prompt is read once for each. An argument is the
// number of prompt tokens.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "pith/pith.hpp"
#include "support/packaged_model.h"

namespace {

using namespace pith;
using Clock = std::chrono::steady_clock;

constexpr int kThreads = 2, kTokens = 24, kRounds = 3;

using Step = void (*)(std::span<Session* const>, std::span<const int32_t>);

void in_one_pass(std::span<Session* const> sessions, std::span<const int32_t> tokens) {
  decode_together(sessions, tokens);
}

void in_turns(std::span<Session* const> sessions, std::span<const int32_t> tokens) {
  for (size_t i = 0; i < sessions.size(); ++i) sessions[i]->decode(tokens[i]);
}

/// Milliseconds for a token of each session, after which they are as before.
double time_steps(std::vector<Session>& sessions, Step step) {
  std::vector<Session*> pointers;
  std::vector<int32_t> tokens;
  for (Session& session : sessions) {
    pointers.push_back(&session);
    tokens.push_back(int32_t(1000 + tokens.size()));
  }
  const int32_t position = sessions[0].next_position();
  step(pointers, tokens);  // builds the graph
  const auto start = Clock::now();
  for (int i = 1; i < kTokens; ++i) step(pointers, tokens);
  const std::chrono::duration<double, std::milli> spent = Clock::now() - start;
  for (Session& session : sessions) session.trim(position);
  return spent.count() / (kTokens - 1);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void compare(const Session& prompt, const char* budget, int count) {
  const auto kept = [&](const Session& session) {
    Session out = session.fork();
    out.compress("snapkv+ada", budget);
    return out;
  };
  const Session base = kept(prompt);
  std::vector<Session> forks, apart;
  for (int i = 0; i < count; ++i) {
    forks.push_back(base.fork());
    apart.push_back(kept(prompt));
  }
  std::vector<double> together, alone, unshared;
  for (int round = 0; round < kRounds; ++round) {
    together.push_back(time_steps(forks, in_one_pass));
    alone.push_back(time_steps(forks, in_turns));
    unshared.push_back(time_steps(apart, in_one_pass));
  }
  std::printf("%6s %9d %10.1f %10.1f %10.1f %12.2f\n", budget, count, median(alone),
              median(unshared), median(together), median(alone) / median(together));
}

}  // namespace

int main(int argc, char** argv) {
  const auto n = size_t(argc > 1 ? std::atoi(argv[1]) : 4096);
  const Model model = Model::load(test::packaged_model());
  auto tokens = model.tokenize(test::long_text());
  if (n == 0 || tokens.size() < n) {
    std::fprintf(stderr, "the text has %zu tokens\n", tokens.size());
    return 1;
  }
  Session prompt(model, {.threads = kThreads});
  prompt.prefill(std::span(tokens).first(n));
  std::printf("budget sequences   in turns      apart   one pass    speed-up  (ms, %zu tokens)\n",
              n);
  for (const char* budget : {"99%", "10%"}) {
    for (const int count : {1, 2, 4, 8}) compare(prompt, budget, count);
  }
}
