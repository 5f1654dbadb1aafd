// Passes beyond the prompt, for what they show: the cache is trimmed back to what was read.

#include <algorithm>

#include "base/argmax.h"
#include "base/timer.h"
#include "session/session.h"

namespace pith {
namespace {

/// Most tokens repeated at once, as KVzip does; the model is then told where to go on.
constexpr size_t kRepeatTokens = 2048;
/// Tokens before a later part that say where it begins.
constexpr size_t kRepeatCue = 8;

/// Bytes that a position of a pass takes: queries, own keys and own values.
size_t pass_bytes(const ModelShape& shape) {
  const int heads = shape.n_head + 2 * shape.n_head_kv;
  return size_t(shape.n_layer) * size_t(heads) * size_t(shape.head_dim) * sizeof(float);
}

/// Trims a cache to where it was.
class Restore {
 public:
  explicit Restore(KvCache& cache) : cache_(cache), end_(cache.next_position()) {}
  ~Restore() { cache_.trim(end_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  KvCache& cache_;
  int32_t end_;
};

}  // namespace

void SessionImpl::forget_passes() {
  repeated.reset();
  ahead.reset();
}

bool SessionImpl::passes_hold(const Needs& need) const {
  return (!need.repeat || repeated != nullptr) &&
         need.lookahead <= (ahead == nullptr ? 0 : ahead->asked);
}

void SessionImpl::run_passes(const Needs& need, const Progress& progress) {
  if (passes_hold(need)) return;
  const PhaseTimer timer;
  // Repeating takes most of the time where there is both.
  const double repeating = !need.repeat ? 0 : need.lookahead == 0 ? 1 : 0.9;
  if (!passes_hold({.repeat = need.repeat})) repeat(part_of(progress, 0, repeating));
  if (!passes_hold({.lookahead = need.lookahead})) {
    look_ahead(need.lookahead, part_of(progress, repeating, 1));
  }
  done.time_s.observe += timer.seconds();
  done.cpu_s.observe += timer.cpu_seconds();
}

/// Moves keys and values of the observed positions, the newest entries, out of the cache.
void SessionImpl::take_own(Observation& pass) const {
  const ModelShape& shape = model.shape();
  const size_t m = pass.positions.size(), floats = m * size_t(shape.head_dim);
  for (int il = 0; il < shape.n_layer; ++il) {
    auto& keys = pass.own_keys.emplace_back(floats * size_t(shape.n_head_kv));
    auto& values = pass.own_values.emplace_back(keys.size());
    for (int h = 0; h < shape.n_head_kv; ++h) {
      const int first = cache.length(il, h) - int(m);
      cache.read_keys(il, h, first, std::span(keys).subspan(size_t(h) * floats, floats));
      cache.read_values(il, h, first, std::span(values).subspan(size_t(h) * floats, floats));
    }
  }
}

void SessionImpl::check_room_for(const std::string& pass, int64_t least) const {
  if (int64_t(options.n_ctx) - cache.next_position() >= least) return;
  throw Error(ErrorCode::memory, "the " + pass + " does not fit: the context holds " +
                                     std::to_string(options.n_ctx) + " tokens and " +
                                     std::to_string(cache.next_position()) +
                                     " are taken; a larger context (-c) would do");
}

/// What tokens that come next show; the cache is trimmed back.
Observation SessionImpl::run_aside(std::span<const int32_t> part, const Progress& progress) {
  const Restore restore(cache);
  Observation out;
  for (size_t at = 0; at < part.size();) {
    report_share(progress, double(at) / double(part.size()));
    const size_t n = std::min(part.size() - at, size_t(engine->max_tokens(cache)));
    const auto all = indices(0, n);
    const QueryRows queries{out, all};
    engine->run(cache, {.tokens = part.subspan(at, n), .logit_rows = {}, .observe_rows = {}},
                logits, nullptr, {&queries, 1});
    at += n;
  }
  take_own(out);
  return out;
}

/// What each of `texts` shows where it comes next.
std::vector<Observation> SessionImpl::run_texts(const std::vector<std::vector<int32_t>>& texts,
                                                const Progress& progress) {
  size_t tokens_in_all = 0;
  for (const auto& text : texts) {
    check_fits(text.size());
    tokens_in_all += text.size();
  }
  check_memory(tokens_in_all * pass_bytes(model.shape()), "what the texts of queries show");
  std::vector<Observation> out;
  const auto count = double(texts.size());
  for (const auto& text : texts) {
    const auto at = double(out.size());
    out.push_back(run_aside(text, part_of(progress, at / count, (at + 1) / count)));
  }
  return out;
}

std::vector<int32_t> SessionImpl::repeat_request(size_t from) const {
  const Vocab& vocab = *model.impl()->vocab;
  if (from == 0)
    return vocab.tokenize("\n\nRepeat the previous context exactly:\n\n", false, false);
  auto out =
      vocab.tokenize("\n\nRepeat the previous context exactly, starting after:", false, false);
  const size_t cue = std::min(from, kRepeatCue);
  out.insert(out.end(), tokens.begin() + int64_t(from - cue), tokens.begin() + int64_t(from));
  return out;
}

/// Parts of `most` tokens.
std::vector<Observation> SessionImpl::repeat_all(size_t most, const Progress& progress) {
  std::vector<Observation> parts;
  for (size_t from = 0; from < tokens.size(); from += most) {
    std::vector<int32_t> part = repeat_request(from);
    const size_t n = std::min(most, tokens.size() - from);
    part.insert(part.end(), tokens.begin() + int64_t(from), tokens.begin() + int64_t(from + n));
    const auto share = [&](size_t at) { return double(at) / double(tokens.size()); };
    parts.push_back(run_aside(part, part_of(progress, share(from), share(from + n))));
  }
  return parts;
}

void SessionImpl::repeat(const Progress& progress) {
  if (tokens.empty()) throw Error(ErrorCode::usage, "there is nothing to repeat yet");
  const size_t longest_request = repeat_request(tokens.size()).size() + kRepeatCue;
  check_room_for("repeat pass", int64_t(longest_request) + 1);
  const size_t room = size_t(options.n_ctx - cache.next_position()) - longest_request;
  const size_t most = std::min(kRepeatTokens, room);
  const size_t requests = longest_request * ((tokens.size() + most - 1) / most);
  check_memory((tokens.size() + requests) * pass_bytes(model.shape()), "the repeat pass");
  repeated = std::make_shared<const std::vector<Observation>>(repeat_all(most, progress));
}

/// Up to `count` of the likeliest tokens, each run over those before it; an end token ends them,
/// and is run only where it is the first.
Observation SessionImpl::greedy(int count, const Progress& progress) {
  const Restore restore(cache);
  const auto n_vocab = size_t(model.shape().n_vocab);
  const int32_t row = 0;
  Observation out;
  const QueryRows queries{out, {&row, 1}};
  std::vector<float> next;
  int32_t token = argmax(std::span(seen.logits).last(n_vocab));
  for (int i = 0; i < count && (i == 0 || !model.is_end(token)); ++i) {
    report_share(progress, double(i) / count);
    engine->run(cache, {.tokens = {&token, 1}, .logit_rows = {&row, 1}, .observe_rows = {}}, next,
                nullptr, {&queries, 1});
    token = argmax(next);
  }
  take_own(out);
  return out;
}

void SessionImpl::look_ahead(int count, const Progress& progress) {
  check_tail("the lookahead pass");
  check_room_for("lookahead pass", 1);
  const int most = std::min(count, options.n_ctx - cache.next_position());
  check_memory(size_t(most) * pass_bytes(model.shape()), "the lookahead pass");
  ahead = std::make_shared<const Lookahead>(Lookahead{count, greedy(most, progress)});
}

}  // namespace pith
