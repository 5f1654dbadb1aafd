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

/// Tokens of a conversation in which only the template's own text may hold control tokens: what a
/// person wrote stays text, whatever it looks like.
class TokenWriter {
 public:
  TokenWriter(const Vocab& vocab, bool begins) : vocab_(vocab), begins_(begins) {}

  void markup(const std::string& text) { append(text, true); }
  void written(const std::string& text) { append(text, false); }
  std::vector<int32_t> take() { return std::exchange(tokens_, {}); }

 private:
  void append(const std::string& text, bool control) {
    if (text.empty()) return;
    const auto tokens = vocab_.tokenize(text, std::exchange(begins_, false), control);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

  const Vocab& vocab_;
  bool begins_;  // the next text is the first
  std::vector<int32_t> tokens_;
};

}  // namespace

Prompt make_prompt(const Vocab& vocab, const PromptParts& parts) {
  if (!parts.file && parts.question.empty()) throw Error(ErrorCode::usage, "the prompt is empty");
  std::string head, tail;
  if (templated(vocab, parts.chat_template)) {
    const ChatMessage user{"user", kPlaceholder};
    std::tie(head, tail) = around(vocab.apply_chat_template({&user, 1}, true));
  }
  Prompt prompt;
  TokenWriter writer(vocab, true);
  writer.markup(head);
  const std::string gap = parts.file && !parts.question.empty() ? "\n\n" : "";
  writer.written(parts.file.value_or("") + gap);
  if (parts.file && !parts.query_aware) prompt.compressed = writer.take();
  writer.written(parts.question);
  writer.markup(tail);
  (parts.file && !parts.query_aware ? prompt.rest : prompt.compressed) = writer.take();
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
      {{"user", "-"}, {"assistant", kPlaceholder}, {"user", kPlaceholder}}};
  const auto [head, tail] = around(around(vocab.apply_chat_template(chat, true)).second);
  TokenWriter writer(vocab, false);
  writer.markup(head);
  writer.written(message);
  writer.markup(tail);
  return writer.take();
}

}  // namespace pith::tools
