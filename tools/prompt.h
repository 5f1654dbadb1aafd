#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/vocab.h"

namespace pith::tools {

struct PromptParts {
  std::optional<std::string> file;  ///< the long text
  std::string question;
  bool chat_template = true;  ///< use the model's template where it has one
  bool query_aware = false;   ///< the question is compressed with the file
};

/// A prompt cut where compression happens: `rest` runs over the compressed cache and has at least
/// one token, so that the first new token already sees that cache.
struct Prompt {
  std::vector<int32_t> compressed;
  std::vector<int32_t> rest;
};

/// The file inside the user's turn and the question after it, cut where the question begins; the
/// two sides are tokenised apart. With a visible question, without a file, or where nothing follows
/// the file, only the last token is the rest. Throws Error(usage) for an empty prompt.
Prompt make_prompt(const Vocab& vocab, const PromptParts& parts);

/// Tokens that end the model's answer and bring the next message of a chat.
std::vector<int32_t> next_turn(const Vocab& vocab, const std::string& message, bool chat_template);

}  // namespace pith::tools
