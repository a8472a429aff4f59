#include "backends/cpu/thread_pool.hpp"

namespace tandem::cpu {

ThreadPool::ThreadPool(int size) {
  try {
    threads_.reserve(static_cast<std::size_t>(size - 1));
    for (int i = 1; i < size; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_available_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run_job(Job& job) {
  if (job.width <= 1 || threads_.empty()) {
    job.call(job.body, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    job.next = jobs_;
    jobs_ = &job;
  }
  for (int i = 1; i < job.width; ++i) work_available_.notify_one();
  job.call(job.body, 0);

  std::unique_lock lock(mutex_);
  Job** link = &jobs_;
  while (*link != &job) link = &(*link)->next;
  *link = job.next;
  body_returned_.wait(lock, [&job] { return job.active == 0; });
}

ThreadPool::Job* ThreadPool::find_open_job() const {
  for (Job* job = jobs_; job != nullptr; job = job->next) {
    if (job->started < job->width) return job;
  }
  return nullptr;
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    Job* job = nullptr;
    work_available_.wait(lock, [&] { return stopping_ || (job = find_open_job()) != nullptr; });
    if (stopping_) return;
    const int worker = job->started++;
    ++job->active;
    lock.unlock();
    job->call(job->body, worker);
    lock.lock();
    if (--job->active == 0) body_returned_.notify_all();
  }
}

}  // namespace tandem::cpu
