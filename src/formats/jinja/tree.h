// The tree of a template, from the parser to the evaluator.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "formats/jinja/value.h"

namespace plimsoll::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more, more_named;  // *more, **more_named
};

enum class UnaryKind { negative, positive, logical_not };
enum class BinaryKind { add, subtract, multiply, divide, floor_divide, modulo, power, logical_and, logical_or };
enum class CompareKind { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };
// The symbols of both enums, in their order.
inline constexpr std::string_view kBinarySymbols[] = {"+", "-", "*", "/", "//", "%", "**", "and", "or"};
inline constexpr std::string_view kCompareSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
constexpr std::string_view symbol(BinaryKind kind) { return kBinarySymbols[static_cast<std::size_t>(kind)]; }
constexpr std::string_view symbol(CompareKind kind) { return kCompareSymbols[static_cast<std::size_t>(kind)]; }

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
  bool tuple = false;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};
struct Unary {
  UnaryKind kind;
  ExpressionPtr operand;
};
struct Binary {
  BinaryKind kind;
  ExpressionPtr left, right;
};
// a < b < c
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<CompareKind, ExpressionPtr>> rest;
};
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
struct Conditional {
  ExpressionPtr test, yes, no;  // `no` may be null: undefined
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Item {
  ExpressionPtr object, index;
};
struct Slice {
  ExpressionPtr object, begin, end, step;  // the last three may be null
};
struct Call {
  ExpressionPtr callee;
  Arguments arguments;
};
// `input` is null for the innermost filter of a filter block.
struct Filter {
  ExpressionPtr input;
  std::string name;
  Arguments arguments;
};
struct Test {
  ExpressionPtr input;
  std::string name;
  Arguments arguments;
};

struct Expression {
  using Any = std::variant<Literal, Name, ListDisplay, DictDisplay, Unary, Binary, Comparison, Concatenation, Conditional,
                           Attribute, Item, Slice, Call, Filter, Test>;
  int line = 0;
  Any any;
};

struct Statement;
using Body = std::vector<Statement>;

// The target of an assignment: a name, a tuple of names, or an attribute of a namespace.
struct Target {
  std::string name;
  std::string attribute;      // of a namespace; else empty
  std::vector<Target> parts;  // of a tuple, with an empty `name`
};

struct Write {
  ExpressionPtr value;
};
struct WriteText {
  std::string text;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr items, only;  // `only` may be null
  Body body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // a chain of Filter, or null
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Body body;
};
struct FilterBlock {
  ExpressionPtr filter;
  Body body;
};
// A function of the template. Parameters with defaults come last.
struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
  bool takes_more = false, takes_more_named = false;  // it reads `varargs`, `kwargs`
};
struct MacroBlock {
  std::unique_ptr<Macro> macro;
};
struct CallBlock {
  std::unique_ptr<Macro> caller;
  ExpressionPtr call;
};
struct Generation {
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Any = std::variant<Write, WriteText, If, For, Set, SetBlock, With, FilterBlock, MacroBlock, CallBlock, Generation, Break,
                           Continue>;
  int line = 0;
  Any any;
};

struct Tree {
  std::string name;  // of the file, for messages
  Body body;
  bool has_marks = false;  // has a {% generation %} block
};

}  // namespace plimsoll::jinja
