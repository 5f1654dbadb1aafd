#include <gtest/gtest.h>

#include <algorithm>

#include "session/session.h"
#include "support/expect_error.h"
#include "support/packaged_model.h"

namespace pith::test {
namespace {

constexpr const char* kText =
    "The lighthouse keeper wrote the number 4417 on the wall, closed the green door behind him and "
    "went down to the harbour, where the boats had already been drawn up for the winter.";

class RepeatPass : public testing::Test {
 protected:
  Session session(int n_ctx = 512) const {
    Session s(model, {.threads = 2, .n_ctx = n_ctx});
    s.prefill(tokens, {});
    return s;
  }

  Model model = Model::load(packaged_model());
  std::vector<int32_t> tokens = model.tokenize(kText);
};

TEST_F(RepeatPass, LeavesTheCacheAndWhatFollowsAsTheyWere) {
  Session plain = session(), repeated = session();
  repeated.impl().run_passes({.repeat = true}, {});
  EXPECT_EQ(repeated.next_position(), plain.next_position());
  const auto expected = plain.evaluate(std::span(tokens).first(5));
  EXPECT_EQ(repeated.evaluate(std::span(tokens).first(5)), expected);
}

TEST_F(RepeatPass, ShowsEveryTokenOfTheRequestAndTheText) {
  Session s = session();
  s.impl().run_passes({.repeat = true}, {});
  ASSERT_EQ(s.impl().repeated->size(), 1U);
  const Observation& part = s.impl().repeated->front();
  EXPECT_GT(part.positions.size(), tokens.size());
  EXPECT_EQ(part.positions.front(), int32_t(tokens.size()));
  const ModelShape& shape = model.shape();
  EXPECT_EQ(part.query.size(), size_t(shape.n_layer));
  EXPECT_EQ(part.own_keys[0].size(),
            part.positions.size() * size_t(shape.n_head_kv) * size_t(shape.head_dim));
}

TEST_F(RepeatPass, IsRunByCompressAndItsTimeIsInTheReceipt) {
  Session s = session();
  const Receipt receipt = s.compress("kvzip", "50%");
  EXPECT_LT(receipt.entries_kept, receipt.entries_full);
  EXPECT_GT(receipt.time_s.observe, 0);
  EXPECT_EQ(s.impl().repeated, nullptr) << "of a cache that is no longer there";
}

TEST_F(RepeatPass, ForksUseTheSamePass) {
  Session s = session();
  s.impl().run_passes({.repeat = true}, {});
  Session fork = s.fork();
  EXPECT_EQ(fork.impl().repeated, s.impl().repeated);
  fork.decode(tokens[0]);
  EXPECT_EQ(fork.impl().repeated, nullptr);
}

/// Little room: the text is repeated in several parts.
TEST_F(RepeatPass, ALongTextIsRepeatedInParts) {
  const int room = 40;
  Session s = session(int(tokens.size()) + room);
  s.impl().run_passes({.repeat = true}, {});
  size_t positions = 0;
  for (const Observation& part : *s.impl().repeated) {
    EXPECT_LE(part.positions.size(), size_t(room));
    positions += part.positions.size();
  }
  EXPECT_GT(s.impl().repeated->size(), 1U);
  EXPECT_GT(positions, tokens.size());
  EXPECT_LT(s.compress("kvzip", "50%").entries_kept, int64_t(tokens.size()) * 90);
}

/// The pass of a search repeats the text up to the trial's tokens; the compression has its own.
TEST_F(RepeatPass, ASearchForABudgetRunsItsOwn) {
  const std::vector<int32_t> once = tokens;
  while (tokens.size() < 160) tokens.insert(tokens.end(), once.begin(), once.end());
  Session s = session();
  const Receipt receipt = s.compress_within("kvzip", 0.1);
  ASSERT_TRUE(receipt.max_kl && !receipt.max_kl->tried.empty());
  EXPECT_LE(receipt.max_kl->measured, 0.1);
  EXPECT_EQ(s.next_position(), int32_t(tokens.size()));
}

TEST_F(RepeatPass, WithoutRoomIsRefusedAndNothingIsLost) {
  Session s = session(int(tokens.size()) + 4);
  expect_error(ErrorCode::memory, "the repeat pass does not fit",
               [&] { s.compress("kvzip", "50%"); });
  EXPECT_EQ(s.next_position(), int32_t(tokens.size()));
}

TEST_F(RepeatPass, InterruptedLeavesTheCacheAsItWas) {
  Session s = session();
  expect_error(ErrorCode::interrupted, "",
               [&] { s.compress("kvzip", "50%", [](double) { return false; }); });
  EXPECT_EQ(s.next_position(), int32_t(tokens.size()));
  EXPECT_GT(s.compress("kvzip", "50%").entries_kept, 0);
}

}  // namespace
}  // namespace pith::test
