#include "prompt.h"

#include <array>
#include <utility>

#include "pith/error.hpp"

namespace pith::tools {
namespace {

/// Stands for a message in the template; no template holds these bytes.
constexpr const char* kPlaceholder = "\x01message\x01";

bool templated(const Vocab& vocab, bool wanted) { return wanted && vocab.has_chat_template(); }

/// What the template writes before and after the first occurrence of the placeholder.
std::pair<std::string, std::string> around(const std::string& text) {
  const size_t at = text.find(kPlaceholder);
  if (at == std::string::npos) {
    throw Error(ErrorCode::unsupported,
                "the chat template rewrites messages; --no-template turns it off");
  }
  return {text.substr(0, at), text.substr(at + std::string(kPlaceholder).size())};
}

}  // namespace

Prompt make_prompt(const Vocab& vocab, const PromptParts& parts) {
  const bool chat = templated(vocab, parts.chat_template);
  std::string head, tail;
  if (chat) {
    const ChatMessage user{"user", kPlaceholder};
    std::tie(head, tail) = around(vocab.apply_chat_template({&user, 1}, true));
  }
  std::string first = head + parts.file.value_or("");
  std::string second = parts.question + tail;
  if (parts.file && !parts.question.empty()) first += "\n\n";
  if (parts.query_aware || !parts.file) first += std::exchange(second, {});
  if (!parts.file && parts.question.empty()) throw Error(ErrorCode::usage, "the prompt is empty");

  Prompt prompt;
  prompt.compressed = vocab.tokenize(first, true, chat);
  if (!second.empty()) prompt.rest = vocab.tokenize(second, false, chat);
  if (prompt.rest.empty()) {
    if (prompt.compressed.empty()) throw Error(ErrorCode::usage, "the prompt is empty");
    prompt.rest.push_back(prompt.compressed.back());
    prompt.compressed.pop_back();
  }
  return prompt;
}

std::vector<int32_t> next_turn(const Vocab& vocab, const std::string& message, bool chat_template) {
  if (!templated(vocab, chat_template)) return vocab.tokenize("\n" + message + "\n", false, false);
  const std::array<ChatMessage, 3> chat{
      {{"user", "-"}, {"assistant", kPlaceholder}, {"user", message}}};
  return vocab.tokenize(around(vocab.apply_chat_template(chat, true)).second, false, true);
}

}  // namespace pith::tools
