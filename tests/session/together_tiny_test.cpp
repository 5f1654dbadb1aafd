#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "session/session.h"
#include "support/expect_error.h"
#include "support/logits.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

constexpr int kPrompt = 200, kSteps = 12;
constexpr double kTolerance = 2e-4;  // on logits of order 3: sums in another order
const TinyModelOptions kOptions{.n_layer = 3, .n_head = 6, .n_head_kv = 2, .head_dim = 32};

class TinyTogether : public ::testing::Test {
 protected:
  Session prompted(const SessionOptions& options) const {
    Session s(model, options);
    s.prefill(prompt, needs_of("snapkv+weights"));
    return s;
  }

  /// Decodes other tokens over each of `together` in one pass, and over a fork of each alone.
  void expect_same_as_alone(std::vector<Session> together, double tolerance = kTolerance) const {
    std::vector<Session> alone;
    std::vector<Session*> pointers;
    for (Session& s : together) {
      alone.push_back(s.fork());
      pointers.push_back(&s);
    }
    std::vector<int32_t> tokens(together.size());
    for (int step = 0; step < kSteps; ++step) {
      for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = int32_t(7 * i + size_t(step)) % 64;
      const auto logits = decode_together(pointers, tokens);
      ASSERT_EQ(logits.size(), tokens.size() * size_t(kOptions.n_vocab));
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto expected = alone[i].decode(tokens[i]);
        for (size_t v = 0; v < expected.size(); ++v) {
          ASSERT_NEAR(logits[i * expected.size() + v], expected[v], tolerance)
              << "session " << i << ", step " << step;
        }
      }
    }
    for (size_t i = 0; i < together.size(); ++i) expect_same_state(together[i], alone[i]);
  }

  static void expect_same_state(Session& a, Session& b) {
    const KvCache &first = a.impl().cache, &second = b.impl().cache;
    EXPECT_EQ(a.impl().tokens, b.impl().tokens);
    EXPECT_EQ(a.impl().seen.positions, b.impl().seen.positions);
    EXPECT_EQ(a.receipt().tokens_generated, b.receipt().tokens_generated);
    for (int layer = 0; layer < kOptions.n_layer; ++layer) {
      for (int head = 0; head < kOptions.n_head_kv; ++head) {
        EXPECT_TRUE(std::ranges::equal(first.positions(layer, head), second.positions(layer, head)))
            << "layer " << layer << ", KV head " << head;
      }
    }
  }

  TinyModel tiny{kOptions};
  Model model = Model::load(tiny.path());
  std::vector<int32_t> prompt = random_tokens(kPrompt, kOptions.n_vocab, 7);
  const SessionOptions exact{
      .threads = 2, .n_ctx = 1000, .k_type = KvType::f32, .v_type = KvType::f32};
};

std::vector<Session> forks_of(const Session& base, int count) {
  std::vector<Session> forks;
  for (int i = 0; i < count; ++i) forks.push_back(base.fork());
  return forks;
}

TEST_F(TinyTogether, ForksOfACompressedPromptOnEveryPath) {
  for (const auto path :
       {AttentionPath::ragged, AttentionPath::portable, AttentionPath::products}) {
    SessionOptions options = exact;
    options.attention = path;
    for (const char* policy : {"snapkv+ada", "snapkv+weights"}) {
      SCOPED_TRACE(testing::Message() << policy << ", path " << int(path));
      Session base = prompted(options);
      base.compress(policy, "25%");
      for (const int count : {1, 2, 9}) {
        // Masks of the portable path carry log-weights in F16.
        const bool half = path == AttentionPath::portable;
        expect_same_as_alone(forks_of(base, count), half ? 0.02 : kTolerance);
      }
    }
  }
}

TEST_F(TinyTogether, EveryKvType) {
  for (const KvType type : {KvType::f32, KvType::f16, KvType::q8_0}) {
    SessionOptions options = exact;
    options.k_type = options.v_type = type;
    Session base = prompted(options);
    base.compress("snapkv+weights", "50%");
    // A last bit decides now and then to which number an entry rounds.
    const double tolerance = type == KvType::q8_0 ? 0.05 : type == KvType::f16 ? 0.01 : kTolerance;
    expect_same_as_alone(forks_of(base, 5), tolerance);
  }
}

/// What sessions have in common may be all of one, a part, or nothing.
TEST_F(TinyTogether, ForksThatPartedBeforeAndChangedSince) {
  Session base = prompted(exact);
  std::vector<Session> sessions = forks_of(base, 6);
  for (int i = 0; i < 20; ++i) sessions[0].decode(i);  // longer
  sessions.push_back(sessions[0].fork());              // of a fork
  sessions[1].trim(50);                                // shorter
  sessions[2].trim(100);                               // as long as before, but not the same
  for (int i = 0; i < 100; ++i) sessions[2].decode((7 * i) % 64);
  sessions.push_back(std::move(base));
  expect_same_as_alone(std::move(sessions));

  base = prompted(exact);
  sessions = forks_of(base, 3);
  sessions[0].compress("snapkv", "25%");  // nothing in common with the others
  sessions[1].compress("streaming", "50%");
  sessions.push_back(sessions[1].fork());
  expect_same_as_alone(std::move(sessions));
}

TEST_F(TinyTogether, MoreSessionsThanAUbatchHolds) {
  SessionOptions options = exact;
  options.n_ubatch = 4;
  expect_same_as_alone(forks_of(prompted(options), 10));
}

TEST_F(TinyTogether, SameBitsForAnyNumberOfThreads) {
  std::vector<float> expected;
  for (const int threads : {1, 2, 3}) {
    SessionOptions options = exact;
    options.threads = threads;
    auto sessions = forks_of(prompted(options), 7);
    std::vector<Session*> pointers;
    for (Session& s : sessions) pointers.push_back(&s);
    const auto logits = decode_together(pointers, std::array{1, 2, 3, 4, 5, 6, 7});
    if (expected.empty()) expected = logits;
    EXPECT_EQ(logits, expected) << threads;
  }
}

/// Sessions that compress what they generate go on doing so, each when it is due.
TEST_F(TinyTogether, CompressesWhatIsGenerated) {
  for (const char* policy : {"streaming", "behavior", "sensitivity+smooth(kernel=5)"}) {
    SCOPED_TRACE(policy);
    Session base = prompted(exact);
    base.compress_generated({.policy = policy, .kept = 8, .every = 5, .window = 2});
    auto sessions = forks_of(base, 3);
    sessions[1].decode(3);
    expect_same_as_alone(std::move(sessions));
  }
}

TEST_F(TinyTogether, WhatCannotBeDoneChangesNoSession) {
  Session base = prompted(exact), stranger = prompted(exact), fork = base.fork();
  const auto expect_refused = [&](ErrorCode code, const char* part,
                                  const std::vector<Session*>& sessions,
                                  const std::vector<int32_t>& tokens) {
    expect_error(code, part, [&] { decode_together(sessions, tokens); });
    for (const Session* s : {&base, &fork, &stranger}) {
      EXPECT_EQ(s->next_position(), kPrompt) << part;
      EXPECT_EQ(s->receipt().tokens_generated, 0) << part;
    }
  };
  expect_refused(ErrorCode::usage, "forks of one another", {&base, &stranger}, {1, 2});
  expect_refused(ErrorCode::usage, "the same session twice", {&base, &fork, &base}, {1, 2, 3});
  expect_refused(ErrorCode::usage, "2 sessions and 1 tokens", {&base, &fork}, {1});
  expect_refused(ErrorCode::usage, "token 64 is not in", {&base, &fork}, {1, 64});
  EXPECT_TRUE(decode_together({}, {}).empty());

  SessionOptions small = exact;
  small.n_ctx = kPrompt + 1;
  Session full = prompted(small), room = full.fork();
  full.decode(1);
  const std::array both = {&room, &full};
  expect_error(ErrorCode::memory, "do not fit", [&] { decode_together(both, std::array{1, 2}); });
  EXPECT_EQ(room.next_position(), kPrompt);
}

}  // namespace
}  // namespace pith::test
