// Renders a tree within limits on steps, nesting and bytes. It reads nothing but the given values.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/jinja/scope.h"
#include "formats/jinja/template.h"
#include "formats/jinja/tree.h"

namespace plimsoll::jinja {

// Null if the value has no method of this name.
const NamedMethod* method_of(const Value& value, std::string_view name);

class Evaluator {
 public:
  // Keeps references to both.
  Evaluator(const Tree& tree, const RenderInput& input);
  ~Evaluator();

  Rendering run();

  // For operators.cpp, filters.cpp, tests.cpp, methods.cpp and functions.cpp.

  [[noreturn]] void fail(std::string why, std::string expected = {}) const;
  // The error for an undefined value, or for one of a wrong type for `what`.
  [[noreturn]] void refuse(const Value& value, std::string_view what) const;
  // Counts work on this many bytes, before it is done.
  void charge(std::uint64_t bytes);
  // The same for bytes that are kept.
  void charge_memory(std::uint64_t bytes);
  // Charges a new value. Fails if it is nested too deeply or too large.
  Value made(List list);
  Value made(Dict dict);
  Value made(Text text);
  Value undefined(std::string why) const;

  // The items of a value; a generator is then used up.
  std::vector<Value> items_of(const Value& value);
  const Text& need_text(const Value& value, std::string_view what) const;
  std::int64_t need_whole(const Value& value, std::string_view what) const;

  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& index);
  Value slice(const Value& object, const Value& begin, const Value& end, const Value& step);
  Value binary(BinaryKind kind, const Value& left, const Value& right);
  bool compare(CompareKind kind, const Value& left, const Value& right);
  bool contains(const Value& container, const Value& item);
  Value call(const Value& callee, CallArguments arguments);
  Value filter(const std::string& name, const Value& input, CallArguments arguments);
  bool test(const std::string& name, const Value& input, const CallArguments& arguments);
  Value method(const Method& method, CallArguments arguments);
  Value global(std::string_view name, CallArguments arguments);
  // The part of a value at a path: "a.b.0" or a number, as for attribute= of filters. `fallback`, if defined, replaces an absent
  // part.
  Value path(const Value& value, const Value& attribute, const Value& fallback = {});
  Text percent(const Text& format, const Value& arguments);
  // -1, 0 or 1.
  int order(const Value& left, const Value& right, std::string_view what);

 private:
  enum class Flow { next, leave_loop, next_turn };
  // One level of nesting during its lifetime.
  class Level {
   public:
    explicit Level(Evaluator& evaluator) : evaluator_(evaluator) { evaluator.enter(); }
    ~Level() { --evaluator_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Evaluator& evaluator_;
  };
  void enter();
  std::optional<Value> named_part(const Value& object, const std::string& name) const;

  Value evaluate(const Expression& expression);
  Value evaluate_any(const Expression& expression);
  Value conditional(const Conditional& node);
  Value comparison(const Comparison& node);
  Value concatenation(const Concatenation& node);
  Value lookup(const std::string& name);
  CallArguments arguments(const Arguments& arguments);
  Value filtered(const Filter& node, const Value* input);
  Value call_macro(const BoundMacro& bound, CallArguments arguments);

  Flow execute(const Body& body);
  Flow execute_into(Text& text, const Body& body);
  Flow execute_any(const Statement& statement);
  Flow run_if(const If& node);
  Flow run_for(const For& node);
  void write(Text text);
  void assign(const Target& target, const Value& value);
  void generation(const Generation& node);
  void call_block(const CallBlock& node);
  Text captured(const Body& body);
  void pin();
  int turn_of(const Value& value) const;
  int current_turn() const;

  const Tree& tree_;
  const RenderInput& input_;
  std::shared_ptr<Scope> scope_;
  Text* out_ = nullptr;
  mutable int line_ = 1;
  unsigned depth_ = 0, loop_depth_ = 0;
  std::uint64_t steps_ = 0, bytes_ = 0, most_bytes_, most_output_;
  bool read_clock_ = false;
  std::vector<std::shared_ptr<Scope>> pinned_;  // scopes of macros, kept for the whole rendering
  std::deque<NameSpace> spaces_;
  std::unordered_map<const Dict*, int> turns_;  // index of the message, by its value
};

}  // namespace plimsoll::jinja
