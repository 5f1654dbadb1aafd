#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/sampler.h"
#include "pith/pith.hpp"

namespace pith::tools {

/// Why an answer ended.
enum class Stop { end_token, length, context_full, interrupted };

std::string stop_name(Stop stop);

struct Answer {
  std::string text;  ///< UTF-8
  Stop stop = Stop::end_token;
};

/// Writes answers over a session, turn by turn.
class Generator {
 public:
  /// With `ignore_end` an end token does not end an answer. `show` gets the answer's text as it
  /// grows, whole characters only.
  Generator(Session& session, const SamplerOptions& options, bool ignore_end,
            std::function<void(std::string_view)> show);

  /// Reads `turn` (not empty) and answers with at most `limit` tokens; limit < 0: until the model
  /// ends or the context is full. Throws Error(memory) where `turn` does not fit the context.
  Answer answer(std::span<const int32_t> turn, int limit);

 private:
  std::span<const float> read(std::span<const int32_t> turn);
  bool context_full() const;

  Session& session_;
  SamplerOptions options_;
  bool ignore_end_;
  std::function<void(std::string_view)> show_;
  std::vector<int32_t> unread_;  // the last token of an answer, which the next turn reads first
};

}  // namespace pith::tools
