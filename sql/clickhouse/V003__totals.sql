-- Totals for people and dashboards: distinct occurrences per tenant, bug and five minutes, whatever rule counts them
-- (`floodmark totals` applies the rules). Computed when read: a materialized view would count what is inserted twice.
CREATE VIEW IF NOT EXISTS totals AS
SELECT
    tenant,
    leftPad(lower(hex(fingerprint_bits)), 32, '0') AS fingerprint,
    fromUnixTimestamp64Milli(five_minutes * 300000 - 2208988800000, 'UTC') AS window_start,
    sum(occurrence_count) AS total
FROM occurrences FINAL
GROUP BY tenant, fingerprint_bits, five_minutes;

CREATE VIEW IF NOT EXISTS totals_by_minute AS
SELECT
    tenant,
    leftPad(lower(hex(fingerprint_bits)), 32, '0') AS fingerprint,
    fromUnixTimestamp64Milli(intDiv(toUnixTimestamp64Milli(ts) + 2208988800000, 60000) * 60000 - 2208988800000, 'UTC')
        AS minute_start,
    sum(occurrence_count) AS total
FROM occurrences FINAL
GROUP BY tenant, fingerprint_bits, minute_start;
