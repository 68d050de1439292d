# Asking: sites, quotes, tasks, and waiting for their answers.

#' The institutions that take part, and what they may be asked about
thebes_sites <- function(coordinator) {
  told <- request(coordinator, "/api/site")
  data.frame(
    name = vapply(told, function(site) site$name, ""),
    state = vapply(told, function(site) site$state, ""),
    datasets = vapply(told, function(site) paste(sort(names(site$datasets)), collapse = ", "), "")
  )
}

#' What one contributor would pay for a document at most, before anybody is asked
#'
#' Of a question to institutions `allowed` says whether enough of them would answer (NA: not known), and
#' `verdicts` what each says.
thebes_quote <- function(coordinator, document) {
  told <- request(coordinator, "/api/quote", body = document)
  verdicts <- told$verdicts
  structure(
    list(
      epsilon = told$price$epsilon,
      delta = told$price$delta,
      unit = told$price$unit,
      allowed = if (is.null(told$allowed)) NA else told$allowed,
      verdicts = data.frame(
        site = as.character(names(verdicts)),
        allowed = vapply(verdicts, function(each) if (is.null(each$allowed)) NA else each$allowed, NA),
        message = vapply(verdicts, function(each) each$message, ""),
        row.names = NULL
      )
    ),
    class = "thebes_quote"
  )
}

print.thebes_quote <- function(x, ...) {
  cat("at most epsilon ", x$epsilon, ", delta ", x$delta, " for one ", plain(x$unit), "\n", sep = "")
  for (row in seq_len(nrow(x$verdicts))) {
    verdict <- x$verdicts[row, ]
    word <- if (is.na(verdict$allowed)) "not known" else if (verdict$allowed) "would answer" else "would refuse"
    said <- if (nzchar(verdict$message)) paste0(": ", plain(verdict$message))
    cat(plain(verdict$site), ": ", word, said, "\n", sep = "")
  }
  invisible(x)
}

#' Put a document up as a task
thebes_submit <- function(coordinator, document) {
  told <- request(coordinator, "/api/task", body = document)
  structure(list(coordinator = coordinator, task_id = told$task_id, digest = told$digest), class = "thebes_task")
}

print.thebes_task <- function(x, ...) {
  cat("<task ", plain(x$task_id), " at ", plain(x$coordinator$url), ">\n", sep = "")
  invisible(x)
}

#' Wait for the release of a task; of one that is trained without end for the first one there is
#'
#' Stops with a `thebes_refusal` where there will be none: which site said what, and what to do. With
#' `timeout` (seconds) it stops with a `thebes_not_finished`; the task goes on, and can be waited for again.
thebes_wait <- function(task, timeout = Inf) {
  began <- Sys.time()
  pause <- 0.05
  repeat {
    told <- request(task$coordinator, path_of(task))
    if (told$status == "done" || (told$status == "open" && !is.null(told$result))) break
    if (!told$status %in% c("open", "running")) stop(ended(task, told))
    if (as.numeric(Sys.time() - began, units = "secs") >= timeout) {
      message <- paste0("task ", task$task_id, " is not finished after ", timeout, " seconds; wait again, or cancel it")
      stop(condition(message, "thebes_not_finished", task = task))
    }
    Sys.sleep(pause)
    pause <- min(2, pause * 1.5)
  }
  structure(list(task = task, document = told$document, told = told$result), class = "thebes_release")
}

#' Put a document up and wait for its release
thebes_ask <- function(coordinator, document, timeout = Inf) {
  thebes_wait(thebes_submit(coordinator, document), timeout)
}

#' One statistic over a data set of institutions; waits for the answer
#'
#' Further fields of the document go into `...`: where, by, bins, quantile, delta, sites, name, purpose. A
#' list of one name is a list: `by = list("ward")`.
thebes_query <- function(coordinator, dataset, statistic, epsilon, ..., timeout = Inf) {
  fields <- list(type = "query", dataset = dataset, statistic = statistic, epsilon = epsilon, ...)
  for (name in c("by", "columns")) if (is.character(fields[[name]])) fields[[name]] <- as.list(fields[[name]])
  if (is.character(fields$sites) && !identical(fields$sites, "all")) fields$sites <- as.list(fields$sites)
  thebes_ask(coordinator, fields, timeout)
}

path_of <- function(task, more = "") {
  paste0("/api/task/", utils::URLencode(task$task_id, reserved = TRUE), more)
}

ended <- function(task, told) {
  why <- vapply(told$refusals, function(each) paste0(each$reason, ": ", each$message), "")
  sites <- paste0(names(why), ": ", why, recycle0 = TRUE)
  message <- paste0("task ", task$task_id, " is ", told$status, "; nothing was released")
  if (length(sites)) message <- paste0(message, ". ", paste(sites, collapse = ". "))
  condition(message, "thebes_refusal", status = told$status, sites = told$refusals)
}
