# The mean age of patients by ward, with its error bar, over all institutions that take part.
library(thebes)

coordinator <- thebes_connect(Sys.getenv("THEBES_URL"))
print(thebes_sites(coordinator))

document <- list(type = "query", dataset = "patients", statistic = "mean", column = "age", by = list("ward"), epsilon = 1)
print(thebes_quote(coordinator, document))

release <- thebes_ask(coordinator, document, timeout = 120)
print(as.data.frame(release))
print(thebes_verify(release))
