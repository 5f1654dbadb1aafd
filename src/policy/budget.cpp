#include <algorithm>
#include <charconv>

#include "pith/policy.hpp"
#include "policy/text.h"

namespace pith {

namespace {

__extension__ using Wide = __int128;

constexpr int kShareDecimals = 6;
constexpr int64_t kPercent = 1'000'000;
constexpr int64_t kWhole = 100 * kPercent;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(ErrorCode::usage, "budget " + quote(text) + ": " + why);
}

/// `digits` as a number; anything but digits, and what 64 bits do not hold, is refused.
int64_t parse_digits(std::string_view digits, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) refuse(text, "the number is too large");
  if (error != std::errc() || end != digits.data() + digits.size() || digits.front() == '-') {
    refuse(text, "expected a share such as 10%, entries a head such as 512, or bytes as 64MiB");
  }
  return value;
}

/// Millionths of a percent in a decimal such as "12.5".
int64_t parse_percent(std::string_view number, std::string_view text) {
  const size_t point = std::min(number.find('.'), number.size());
  const int64_t whole = parse_digits(number.substr(0, point), text);
  if (whole > 100) refuse(text, "a share is at most 100%");
  if (point == number.size()) return whole * kPercent;
  std::string decimals(number.substr(point + 1));
  if (decimals.size() > kShareDecimals) refuse(text, "a share has at most 6 decimals");
  const bool written = !decimals.empty();
  decimals.resize(kShareDecimals, '0');
  return whole * kPercent + parse_digits(written ? decimals : "", text);
}

/// Bytes in one `unit`, 0 for an unknown one.
int64_t unit_bytes(std::string_view unit) {
  if (unit == "KiB") return int64_t{1} << 10;
  if (unit == "MiB") return int64_t{1} << 20;
  if (unit == "GiB") return int64_t{1} << 30;
  return 0;
}

int64_t parse_bytes(std::string_view number, std::string_view unit, std::string_view text) {
  const int64_t one = unit_bytes(unit);
  if (one == 0) refuse(text, "unknown unit, expected %, KiB, MiB or GiB");
  const int64_t count = parse_digits(number, text);
  if (count > INT64_MAX / one) refuse(text, "the number is too large");
  return count * one;
}

}  // namespace

Budget Budget::parse(std::string_view text) {
  if (text.empty())
    throw Error(ErrorCode::usage, "the budget is empty: expected 10%, 512 or 64MiB");
  if (text.front() == '-') refuse(text, "a budget is positive");
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, digits);
  std::string_view unit = text.substr(digits);
  if (unit.size() > 1 && unit.front() == ' ') unit.remove_prefix(1);

  Budget budget;
  budget.text_ = text;
  if (unit == "%") {
    budget.unit_ = Unit::share;
    budget.amount_ = parse_percent(number, text);
    if (budget.amount_ > kWhole) refuse(text, "a share is at most 100%");
  } else if (unit.empty() || number.empty()) {
    budget.unit_ = Unit::entries;
    budget.amount_ = parse_digits(number, text);
  } else {
    budget.unit_ = Unit::bytes;
    budget.amount_ = parse_bytes(number, unit, text);
  }
  if (budget.amount_ == 0) refuse(text, "nothing would be kept");
  return budget;
}

int64_t Budget::total_entries(int64_t full_entries, int rows, size_t entry_bytes) const {
  Wide total = amount_;
  if (unit_ == Unit::share) total = total * full_entries / kWhole;
  if (unit_ == Unit::entries) total *= rows;
  if (unit_ == Unit::bytes) total /= Wide(entry_bytes);
  return int64_t(std::min<Wide>(total, full_entries));
}

}  // namespace pith
