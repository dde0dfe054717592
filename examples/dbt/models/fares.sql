-- one row for each city that has rides since `since`, merged into the Hudi table `fares`
{{ config(
    materialized='external', format='parquet', plugin='hudi',
    path=env_var('LAKE') ~ '/fares', record_key='city'
) }}
select city, sum(fare) as fare, count(*) as rides
from {{ source('lake', 'rides') }}
where city in (
  select city from {{ source('lake', 'rides') }} where ts >= {{ var('since', 0) }}
)
group by city
