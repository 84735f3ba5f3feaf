// The parser of expressions, which stand in the tags of a template.
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

  // One expression, or several separated by commas. `with_condition`: allows an inline if.
  ExpressionPtr tuple(bool with_condition = true, bool in_brackets = false);
  ExpressionPtr expression();
  // All following filters, over an input. A null input stands for the body of a filter block.
  ExpressionPtr filters(ExpressionPtr input);
  ExpressionPtr one_filter(ExpressionPtr input);

  bool reads_more_ = false, reads_more_named_ = false;  // a macro reads `varargs`, `kwargs`

 private:
  using Operand = ExpressionPtr (ExpressionParser::*)();
  bool tuple_ends() const;
  // Operands with operators of these kinds between them, grouped from the left.
  ExpressionPtr chain(std::initializer_list<BinaryKind> kinds, Operand operand);
  // From the weakest operator to the strongest.
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
  // The arguments of a call, with brackets.
  Arguments arguments();
  std::string dotted();
  bool takes_operand() const;
  ExpressionPtr test(ExpressionPtr input);
};

}  // namespace plimsoll::jinja
