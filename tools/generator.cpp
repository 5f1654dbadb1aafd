#include "generator.h"

#include <utility>

#include "interrupt.h"
#include "session/session.h"
#include "utf8_stream.h"

namespace pith::tools {

std::string stop_name(Stop stop) {
  switch (stop) {
    case Stop::end_token:
      return "end";
    case Stop::length:
      return "length";
    case Stop::context_full:
      return "context full";
    case Stop::interrupted:
      return "interrupted";
  }
  return {};
}

Generator::Generator(Session& session, const SamplerOptions& options, bool ignore_end,
                     std::function<void(std::string_view)> show)
    : session_(session), options_(options), ignore_end_(ignore_end), show_(std::move(show)) {}

std::span<const float> Generator::read(std::span<const int32_t> turn) {
  unread_.insert(unread_.end(), turn.begin(), turn.end());
  const std::vector<int32_t> tokens = std::exchange(unread_, {});
  const auto all_but_last = std::span(tokens).first(tokens.size() - 1);
  if (!all_but_last.empty()) {
    session_.prefill(all_but_last, {}, [](double) { return !interrupted(); });
  }
  return session_.decode(tokens.back());
}

bool Generator::context_full() const {
  return session_.next_position() >= session_.impl().options.n_ctx;
}

Answer Generator::answer(std::span<const int32_t> turn, int limit) {
  const Vocab& vocab = *session_.model().impl()->vocab;
  Sampler sampler(vocab, options_);
  Answer answer;
  Utf8Stream stream;
  auto show = [&](const std::string& text) {
    answer.text += text;
    show_(text);
  };
  answer.stop = Stop::length;
  std::span<const float> logits = read(turn);
  for (int produced = 0; limit < 0 || produced < limit; ++produced) {
    if (produced > 0) {
      if (context_full()) {
        answer.stop = Stop::context_full;
        break;
      }
      logits = session_.decode(std::exchange(unread_, {})[0]);
    }
    const int32_t token = sampler.sample(logits);
    if (interrupted() || (!ignore_end_ && vocab.is_end(token))) {
      answer.stop = interrupted() ? Stop::interrupted : Stop::end_token;
      break;
    }
    unread_ = {token};
    show(stream.push(vocab.piece(token)));
  }
  show(stream.finish());
  return answer;
}

}  // namespace pith::tools
