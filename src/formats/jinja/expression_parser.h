// The expressions of a template: what stands in its tags.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "formats/jinja/token_cursor.h"
#include "formats/jinja/tree.h"

namespace plimsoll::jinja {

class ExpressionParser : protected TokenCursor {
 protected:
  using TokenCursor::TokenCursor;

  // One expression, or several with commas between them. `with_condition`: inline if is one.
  ExpressionPtr tuple(bool with_condition = true, bool in_brackets = false);
  ExpressionPtr expression();
  // All filters that follow, over an input that is null where they stand at a block.
  ExpressionPtr filters(ExpressionPtr input);
  ExpressionPtr one_filter(ExpressionPtr input);

  bool reads_more_ = false, reads_more_named_ = false;  // names that make a macro take more arguments

 private:
  using Operand = ExpressionPtr (ExpressionParser::*)();
  bool tuple_ends() const;
  // Operands with operators of these kinds between them, from left to right.
  ExpressionPtr chain(std::initializer_list<BinaryKind> kinds, Operand operand);
  // Loosest first.
  ExpressionPtr logical_or();
  ExpressionPtr logical_and();
  ExpressionPtr logical_not();
  ExpressionPtr comparison();
  std::optional<CompareKind> compare_kind();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr signed_value();
  ExpressionPtr filtered_value();
  ExpressionPtr primary();
  ExpressionPtr dict(int line);
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr call(ExpressionPtr callee);
  // Those of a call, in brackets.
  Arguments arguments();
  std::string dotted();
  bool takes_operand() const;
  ExpressionPtr test(ExpressionPtr input);
};

}  // namespace plimsoll::jinja
