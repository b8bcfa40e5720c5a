"""The tables in Markdown."""


def markdown(table, reports):
    """`reports[server]`; a cell that is not the same on all servers names them."""
    kinds = [kind for kind in table.kinds
             if any(kind in pair for report in reports.values() for pair in report.cells.get(table.title, {}))]
    rows = [["held by \\ tries", *(kind.label for kind in kinds)], ["---"] * (len(kinds) + 1)]
    for holder in kinds:
        cells = [{server: report.cells[table.title].get((holder, newcomer), "–") for server, report in reports.items()}
                 for newcomer in kinds]
        rows.append([holder.label, *map(merged, cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def merged(by_server):
    values = set(by_server.values())
    if len(values) == 1:
        return values.pop()
    return ", ".join(f"{value} on {server}" for server, value in by_server.items())
