#include "plan/tiers/pinned.h"

#include <set>

#include "plan/lifetimes.h"

namespace plimsoll {

Bytes pinned_bytes(const Graph& graph, const Timeline& timeline) {
  std::set<ValueId> values;
  for (const Step& step : timeline.steps) {
    if (step.kind != Step::Kind::feed && step.kind != Step::Kind::fetch) continue;
    const StepAccess access = access_of(graph, step, false);
    values.insert(access.writes.begin(), access.writes.end());
    values.insert(access.reads.begin(), access.reads.end());
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[ValueId{i}].role == Role::staging) values.insert(ValueId{i});
  }
  Bytes sum = kPinnedPart;
  for (const ValueId value : values) sum += align_up(graph.values[value].bytes(), kPinnedAlignment);
  return align_up(sum, kPage);
}

}  // namespace plimsoll
