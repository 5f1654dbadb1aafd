#include "eval/rows.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "pith/error.hpp"

namespace pith {
namespace {

using nlohmann::json;

constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr size_t kMaxTokens = size_t{1} << 20;
constexpr size_t kMaxNameBytes = 256;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::bad_file, what); }

const json& field(const json& row, const char* name) {
  const auto it = row.find(name);
  if (it == row.end()) fail(std::string("field '") + name + "' is missing");
  return *it;
}

std::string name_field(const json& row, const char* name) {
  const json& value = field(row, name);
  if (!value.is_string()) fail(std::string("field '") + name + "' is not a string");
  auto text = value.get<std::string>();
  if (text.empty() || text.size() > kMaxNameBytes) {
    fail(std::string("field '") + name + "' must have 1 to " + std::to_string(kMaxNameBytes) +
         " bytes");
  }
  return text;
}

/// Integers of an array field, each in [0, limit).
template <typename T>
std::vector<T> integers(const json& row, const char* name, int64_t limit) {
  const json& array = field(row, name);
  if (!array.is_array()) fail(std::string("field '") + name + "' is not an array");
  if (array.empty()) fail(std::string("field '") + name + "' is empty");
  if (array.size() > kMaxTokens) {
    fail(std::string("field '") + name + "' has more than " + std::to_string(kMaxTokens) +
         " tokens");
  }
  std::vector<T> out;
  out.reserve(array.size());
  for (const json& item : array) {
    // Unsigned numbers above INT64_MAX would wrap in get<int64_t>.
    const bool fits = item.is_number_integer() &&
                      (!item.is_number_unsigned() || item.get<uint64_t>() < uint64_t(limit)) &&
                      item.get<int64_t>() >= 0 && item.get<int64_t>() < limit;
    if (!fits) {
      fail(std::string("field '") + name + "' holds " + item.dump().substr(0, 40) + " at index " +
           std::to_string(out.size()) + ", not an integer from 0 to " + std::to_string(limit - 1));
    }
    out.push_back(T(item.get<int64_t>()));
  }
  return out;
}

json parse_object(std::string_view line) {
  json row;
  try {
    row = json::parse(line);
  } catch (const json::parse_error& e) {
    fail("not JSON from byte " + std::to_string(e.byte) + " on");
  }
  if (!row.is_object()) fail("not a JSON object");
  return row;
}

int prompt_tokens(const json& row, size_t context) {
  const auto it = row.find("prompt_tokens");
  if (it == row.end() || it->is_null()) return 0;
  if (!it->is_number_unsigned() || it->get<uint64_t>() > context) {
    fail("field 'prompt_tokens' is not an integer from 0 to the context's length");
  }
  return it->get<int>();
}

/// Next line without its newline; false at the end of the file. Bounded, unlike std::getline.
bool next_line(std::istream& in, std::string& line) {
  line.clear();
  std::streambuf& buffer = *in.rdbuf();
  constexpr int kEnd = std::char_traits<char>::eof();
  int c = buffer.sbumpc();
  if (c == kEnd) return false;
  for (; c != kEnd && c != '\n'; c = buffer.sbumpc()) {
    if (line.size() == kMaxLineBytes) fail("the line is longer than 64 MiB");
    line.push_back(char(c));
  }
  return true;
}

bool blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

}  // namespace

FidelityRow parse_row(std::string_view line, int n_vocab) {
  const json object = parse_object(line);
  if (object.contains("context") && !object.contains("context_ids")) {
    fail("a text row; fidelity needs token ids (context_ids, continuation_ids, score)");
  }
  FidelityRow row;
  row.id = name_field(object, "id");
  row.kind = object.contains("kind") ? name_field(object, "kind") : "rows";
  row.context = integers<int32_t>(object, "context_ids", n_vocab);
  row.continuation = integers<int32_t>(object, "continuation_ids", n_vocab);
  row.score = integers<uint8_t>(object, "score", 2);
  if (row.score.size() != row.continuation.size()) {
    fail("'score' has " + std::to_string(row.score.size()) + " values for " +
         std::to_string(row.continuation.size()) + " continuation_ids");
  }
  if (std::ranges::find(row.score, 1) == row.score.end()) fail("no position has score 1");
  row.prompt_tokens = prompt_tokens(object, row.context.size());
  return row;
}

std::vector<FidelityRow> read_rows(const std::string& path, int n_vocab) {
  std::ifstream in(path, std::ios::binary);
  if (!in || in.peek() == std::char_traits<char>::eof()) {
    throw Error(ErrorCode::io, path + ": cannot be read, or is empty");
  }
  std::vector<FidelityRow> rows;
  std::string line;
  for (int number = 1;; ++number) {
    try {
      if (!next_line(in, line)) break;
      if (!blank(line)) rows.push_back(parse_row(line, n_vocab));
    } catch (const Error& e) {
      throw Error(e.code(), path + ":" + std::to_string(number) + ": " + e.what());
    }
  }
  if (rows.empty()) throw Error(ErrorCode::bad_file, path + ": no rows");
  return rows;
}

std::vector<FidelityRow> select_rows(std::vector<FidelityRow> rows,
                                     const std::vector<std::string>& kinds, int limit) {
  for (const std::string& kind : kinds) {
    if (std::ranges::find(rows, kind, &FidelityRow::kind) == rows.end()) {
      throw Error(ErrorCode::usage, "no row is of kind '" + kind + "'");
    }
  }
  std::vector<FidelityRow> selected;
  std::map<std::string, int> taken;
  for (FidelityRow& row : rows) {
    if (!kinds.empty() && std::ranges::find(kinds, row.kind) == kinds.end()) continue;
    if (limit == 0 || taken[row.kind]++ < limit) selected.push_back(std::move(row));
  }
  return selected;
}

}  // namespace pith
