// Playing a launch in the order of virtual time.
#include <bit>

#include "machine/machine.hpp"

namespace tandem::model {

void Machine::spend(Thread& thread, Cycle cycles) {
  if (thread.lane != 0) return;
  thread.warp->time += cycles;
  give_way(thread);
}

void Machine::give_way(Thread& thread) {
  Warp& warp = *thread.warp;
  if (next_due(&warp).time < warp.time) {
    set_runnable(thread);
    block(thread);
  }
  timing->now = warp.time;
}

Machine::Due Machine::next_due(const Warp* except) const {
  Due next;
  const auto offer = [&](Cycle time, Due::What what, std::size_t index) {
    if (time < next.time) next = {time, what, index};
  };
  for (std::size_t i = 0; i < loads_.size(); ++i) offer(loads_[i]->due, Due::What::load, i);
  for (std::size_t i = 0; i < stores_.size(); ++i) offer(stores_[i]->due, Due::What::store, i);
  offer(timing->next_multiplied(), Due::What::multiplied, 0);
  for (std::size_t i = 0; i < runnable_.size(); ++i)
    if (runnable_[i] != except) offer(runnable_[i]->time, Due::What::warp, i);
  return next;
}

bool Machine::step_in_time() {
  const Due next = next_due(nullptr);
  const auto step_copy = [&](std::vector<std::unique_ptr<Copy>>& copies) {
    timing->now = next.time;
    Copy& copy = *copies[next.index];
    if (step(*this, copy))
      copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(next.index));
    else
      copy.due = timing->arrival(copy);
  };
  switch (next.what) {
    case Due::What::nothing: return false;
    case Due::What::load: return step_copy(loads_), true;
    case Due::What::store: return step_copy(stores_), true;
    case Due::What::multiplied: return execute_wgmma(*this, timing->finish_multiplied()), true;
    case Due::What::warp: break;
  }
  Warp& warp = *runnable_[next.index];
  resume(warp.thread(std::countr_zero(warp.runnable)));
  return true;
}

}  // namespace tandem::model
