#include "policy/knobs.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "policy/text.h"

namespace pith {

namespace {

/// The whole of `text` as a finite number.
bool parse_number(const std::string& text, double& out) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, out);
  return result.ec == std::errc() && result.ptr == end && std::isfinite(out);
}

/// Like parse_number for values that were checked when they were set.
double checked_number(const std::string& text) {
  double value = 0;
  if (!parse_number(text, value)) {
    throw Error(ErrorCode::internal, "knob value " + quote(text) + " is not a number");
  }
  return value;
}

bool allowed_number(const Knob& knob, double value) {
  return value >= knob.min && value <= knob.max && (!knob.integer || value == std::floor(value));
}

/// `value` as specs write it; throws Error(usage) where the knob does not allow it.
std::string canonical_value(const std::string& owner, const Knob& knob, const std::string& value) {
  double number = 0;
  if (!knob.choices.empty()) {
    if (std::count(knob.choices.begin(), knob.choices.end(), value) > 0) return value;
  } else if (parse_number(value, number) && allowed_number(knob, number)) {
    return number_text(number + 0.0);  // + 0.0 turns -0 into 0
  }
  throw Error(ErrorCode::usage, owner + ": " + knob.name + "=" + value + " is not allowed (" +
                                    allowed_values(knob) + ")");
}

[[noreturn]] void refuse_knob(const SpecPart& part, const std::string& name,
                              std::span<const Knob> knobs) {
  if (knobs.empty()) {
    throw Error(ErrorCode::usage, part.name + " has no knobs, so no " + quote(name));
  }
  std::vector<std::string> names;
  for (const Knob& knob : knobs) names.push_back(knob.name);
  throw Error(ErrorCode::usage, part.name + " has no knob " + quote(name) + ": did you mean " +
                                    nearest(name, names) + "?");
}

}  // namespace

double KnobValues::number(const std::string& name) const { return checked_number(choice(name)); }

int KnobValues::integer(const std::string& name) const { return int(number(name)); }

const std::string& KnobValues::choice(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw Error(ErrorCode::internal, "no knob " + quote(name));
  return found->second;
}

KnobValues resolve_knobs(std::span<const Knob> knobs, const SpecPart& part) {
  KnobValues values;
  for (const Knob& knob : knobs) values.set(knob.name, knob.value);
  for (const auto& argument : part.arguments) {
    const std::string& name = argument.first;
    const auto knob = std::find_if(knobs.begin(), knobs.end(),
                                   [&](const Knob& candidate) { return candidate.name == name; });
    if (knob == knobs.end()) refuse_knob(part, name, knobs);
    values.set(name, canonical_value(part.name, *knob, argument.second));
  }
  return values;
}

std::string spec_text(const std::string& name, std::span<const Knob> knobs,
                      const KnobValues& values) {
  std::string text;
  for (const Knob& knob : knobs) {
    text += (text.empty() ? "(" : ",") + knob.name + "=" + values.choice(knob.name);
  }
  return name + (text.empty() ? "" : text + ")");
}

std::string allowed_values(const Knob& knob) {
  std::string text;
  for (const std::string& choice : knob.choices) text += (text.empty() ? "" : "|") + choice;
  if (!text.empty()) return text;
  return number_text(knob.min) + " to " + number_text(knob.max) + (knob.integer ? ", integer" : "");
}

}  // namespace pith
