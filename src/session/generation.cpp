#include <algorithm>
#include <bit>

#include "base/timer.h"
#include "policy/protection.h"
#include "session/session.h"

namespace pith {

/// What competes at one compression: entries from position `from` on, of which `kept` a head stay,
/// the window counted.
struct Round {
  int32_t from = 0;
  int kept = 0;
  std::vector<Summary> summaries;  ///< once it is done
};

namespace {
constexpr int kSinks = 4;

/// Entries a head of each summary, so that with the most summaries that `positions` need, a block
/// to come and the window, no more than what is asked for is there.
int summary_size(const GenerationOptions& asked, int64_t positions) {
  const int64_t blocks = std::max<int64_t>(1, (positions + asked.every - 1) / asked.every);
  const int most = std::bit_width(uint64_t(blocks)), fixed = asked.every + asked.window;
  if (asked.kept - fixed < most) {
    throw Error(ErrorCode::usage, "a counter over " + std::to_string(positions) +
                                      " positions needs up to " + std::to_string(most) +
                                      " summaries: keep at least " + std::to_string(fixed + most) +
                                      " entries a head, or take a shorter context");
  }
  return (asked.kept - fixed) / most;
}

/// Of the compression that is due where `next` is the next position; none where nothing has left
/// the window.
std::optional<Round> next_round(const Generating& g, int32_t next) {
  const GenerationOptions& asked = g.options;
  if (asked.pool == Pool::rolling) {
    return Round{.from = g.from, .kept = asked.kept - asked.every, .summaries = {}};
  }
  Round round{.kept = g.summary_kept + asked.window, .summaries = g.summaries};
  const int32_t end = next - asked.window;
  if (end <= (g.summaries.empty() ? g.from : g.summaries.back().end)) return std::nullopt;
  const Summary sum = carry(round.summaries, g.from, end);
  round.from = sum.from;
  round.summaries.push_back(sum);
  return round;
}

}  // namespace

void check_generation(const Policy& policy, const GenerationOptions& options) {
  if (policy.keeps_all()) {
    throw Error(ErrorCode::usage, policy.spec() + " evicts nothing: generation needs a policy");
  }
  if (!policy.in_generation()) {
    throw Error(ErrorCode::usage, policy.spec() +
                                      " reads more than the last positions and does not work "
                                      "while generating; `pith policies` says which do");
  }
  if (options.every < 1) {
    throw Error(ErrorCode::usage, "compressing every " + std::to_string(options.every) +
                                      " tokens is not possible: it takes 1 or more");
  }
  if (options.window < 0) throw Error(ErrorCode::usage, "the window is at least 0");
  const int64_t least = int64_t{options.every} + options.window + 1;
  if (options.kept < least) {
    throw Error(ErrorCode::usage, "keeping " + std::to_string(options.kept) +
                                      " generated entries a head leaves no room for " +
                                      std::to_string(options.every) + " new ones and a window of " +
                                      std::to_string(options.window) + ": keep at least " +
                                      std::to_string(least));
  }
}

void SessionImpl::compress_generated(const GenerationOptions& asked) {
  const Policy policy = Policy::parse(asked.policy);
  check_generation(policy, asked);
  const int32_t next = cache.next_position();
  Generating begun{.policy = policy, .options = asked, .from = next, .checked = next};
  if (asked.pool == Pool::counter) begun.summary_kept = summary_size(asked, options.n_ctx - next);
  done.generation = {.policy = policy.spec(),
                     .kept = asked.kept,
                     .every = asked.every,
                     .window = asked.window,
                     .pool = asked.pool};
  generating = std::move(begun);
}

int64_t SessionImpl::entries_before(int32_t position) const {
  const ModelShape& shape = model.shape();
  int64_t count = 0;
  for (int row = 0; row < shape.n_rows(); ++row) {
    const auto positions = cache.positions(row / shape.n_head_kv, row % shape.n_head_kv);
    count += std::ranges::lower_bound(positions, position) - positions.begin();
  }
  return count;
}

/// How many of the last of `n_tokens` that come now the next compression will read.
size_t SessionImpl::rows_to_observe(size_t n_tokens) const {
  if (!generating) return 0;
  const int64_t tail = generating->policy.needs().tail;
  const int64_t due = int64_t{generating->checked} + generating->options.every;
  const int64_t after = due - cache.next_position() - int64_t(n_tokens);
  return size_t(std::clamp<int64_t>(tail - std::max<int64_t>(0, after), 0, int64_t(n_tokens)));
}

/// Runs tokens that come after the prompt.
void SessionImpl::run_observed(std::span<const int32_t> part, std::span<const int32_t> logit_rows) {
  const size_t rows = rows_to_observe(part.size());
  std::vector<int32_t> observed(rows);
  for (size_t i = 0; i < rows; ++i) observed[i] = int32_t(part.size() - rows + i);
  engine->run(cache, {.tokens = part, .logit_rows = logit_rows, .observe_rows = observed}, logits,
              &seen);
  note_observed(part, rows);
}

/// After tokens were run, the last `rows` of them observed.
void SessionImpl::note_observed(std::span<const int32_t> part, size_t rows) {
  // What is older than the tail goes now and then, not at every token.
  const auto tail = size_t(rows > 0 ? generating->policy.needs().tail : 0);
  if (rows > 0 && seen.positions.size() > 2 * tail) seen = seen.tail(int(tail));
  note_tokens(part);
}

/// Reads `text` in blocks that end where a compression is due: each sees itself and what stayed of
/// the blocks before it.
void SessionImpl::prefill_compressing(std::span<const int32_t> text, const Progress& progress) {
  for (size_t at = 0; at < text.size();) {
    report_share(progress, double(at) / double(text.size()));
    const int32_t due = generating->checked + generating->options.every - cache.next_position();
    const size_t n =
        std::min({text.size() - at, size_t(std::max(due, 1)), size_t(engine->max_tokens(cache))});
    const PhaseTimer timer;
    run_observed(text.subspan(at, n), {});
    done.time_s.prefill += timer.seconds();
    done.cpu_s.prefill += timer.cpu_seconds();
    at += n;
    compress_if_due();
  }
  report_share(progress, 1);
}

void SessionImpl::compress_if_due() {
  if (!generating) return;
  const GenerationOptions& asked = generating->options;
  const int32_t next = cache.next_position();
  if (next - generating->checked < asked.every) return;
  generating->checked = next;
  auto round = next_round(*generating, next);
  if (!round) return;
  const int64_t before = entries_before(round->from), all = cache.total_entries();
  const int64_t keep = before + int64_t{round->kept} * model.shape().n_rows();
  if (all > keep) reduce(*round, keep);
  generating->summaries = std::move(round->summaries);
}

/// Evicts what loses the round, so that `keep` entries stay in the cache.
void SessionImpl::reduce(const Round& round, int64_t keep) {
  const int64_t of_the_prompt = done.entries_protected, all = cache.total_entries();
  const int window = generating->options.window;
  // Where nothing of a prompt stays whole, its first entries are the sinks.
  const int sinks = round.from == 0 ? std::min(kSinks, round.kept - window - 1) : 0;
  const Plan made = plan(generating->policy, keep,
                         {.sinks = sinks, .window = window, .prompt = round.from}, {}, done);
  done.entries_protected = of_the_prompt;
  const PhaseTimer applying;
  cache.apply(made);
  done.time_s.apply += applying.seconds();
  done.cpu_s.apply += applying.cpu_seconds();
  forget_passes();
  ++done.generation.compressions;
  done.generation.entries_evicted += all - cache.total_entries();
}

}  // namespace pith
